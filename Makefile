# Everything sets itself up on a machine that has only Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Tests start many processes: without bytecode, each would compile Mercury again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name it: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo,dev,spark]'
	@touch $@

.PHONY: setup
setup: $(STAMP) ## Make .venv and install everything into it

.PHONY: demo
demo: $(STAMP) ## Move orders between two databases while processes are killed and the network fails
	$(BIN)/mercury demo

.PHONY: lossy
lossy: $(STAMP) ## Exchange messages through a network that loses, repeats and cuts exchanges
	$(BIN)/python -m samples.lossy_network

.PHONY: test
test: $(STAMP) ## Run all tests (15 to 30 minutes on two cores); the end says why tests were skipped
	$(BIN)/python -m compileall -q -j 0 mercury
	$(BIN)/python -m pytest -rs -n 4 --dist loadfile --no-loadscope-reorder

.PHONY: compile
compile: $(STAMP) ## Compile Mercury and the tests: each of the processes of a first "make test" would compile all of them
	$(BIN)/python -m compileall -q -j 0 mercury
	@# What cannot be imported is reported by the tests.
	-$(BIN)/python -m pytest --collect-only -q >/dev/null

.PHONY: check
check: $(STAMP) ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

.PHONY: conformance
conformance: $(STAMP) ## Count the protocol rules that are implemented and tested; list the others with the reason
	$(BIN)/python -m tests.docs.conformance

.PHONY: mutants
mutants: $(STAMP) ## Remove each guard in a copy of the tree, and check that a test fails
	$(BIN)/python -m tests.mutation.run

.PHONY: chaos
chaos: $(STAMP) ## Kill real processes and PostgreSQL at every crash point, and compare what arrived (above an hour)
	$(BIN)/python -m tests.chaos
	$(BIN)/python -m tests.chaos experiment
	$(BIN)/python -m tests.acceptance.combinations

.PHONY: trial
trial: $(STAMP) ## Break deployments of Mercury at 544 branches, and find the planted defects (10 minutes)
	$(BIN)/python -m tests.trial.planted
	$(BIN)/python -m tests.trial

.PHONY: trial-all
trial-all: $(STAMP) ## Break deployments of Mercury at all branches (many hours)
	$(BIN)/python -m tests.trial.planted
	$(BIN)/python -m tests.trial --all

.PHONY: interop
interop: $(STAMP) ## Exchange messages with Apache CXF and Eclipse Metro (needs Java 17 and Maven; above an hour)
	$(BIN)/python -m tests.interop

.PHONY: soak
soak: $(STAMP) ## Send orders for an hour under random faults
	$(BIN)/python -m tests.chaos soak --minutes 60

.PHONY: simulate
simulate: $(STAMP) ## Simulate 1000 seeds
	$(BIN)/mercury simulate --seeds 1000

.PHONY: bench
bench: $(STAMP) ## Measure Mercury beside other ways, and fill benchmarks/RESULTS.md (about an hour)
	$(BIN)/python -m benchmarks

.PHONY: profile
profile: $(STAMP) ## Show where the CPU time of a message goes, by function and thread, with its statements and copies
	$(BIN)/python -m benchmarks.profile

.PHONY: clean
clean: ## Remove all generated files
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
