# Everything sets itself up on a machine that has only Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help

.PHONY: help
help: ## Say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name it: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo,dev,spark]'
	@touch $@

.PHONY: setup
setup: $(STAMP) ## Make .venv and install everything into it

.PHONY: demo
demo: $(STAMP) ## Orders from one database to another while processes are killed and the network fails
	$(BIN)/mercury demo

.PHONY: lossy
lossy: $(STAMP) ## Move messages both ways through a network that loses, repeats and cuts
	$(BIN)/python -m samples.lossy_network

.PHONY: test
test: $(STAMP) ## Run all tests: some minutes; at the end, why some were skipped
	$(BIN)/python -m pytest -rs -n 2 --dist loadfile

.PHONY: check
check: $(STAMP) ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

.PHONY: mutants
mutants: $(STAMP) ## Take out each guard in turn and see that a check fails
	$(BIN)/python -m tests.mutation.run

.PHONY: chaos
chaos: $(STAMP) ## Kill real processes and PostgreSQL at every crash point, and compare what arrived (20 minutes)
	$(BIN)/python -m tests.chaos
	$(BIN)/python -m tests.chaos experiment
	$(BIN)/python -m tests.acceptance.combinations

.PHONY: soak
soak: $(STAMP) ## An hour of orders while everything goes wrong at random
	$(BIN)/python -m tests.chaos soak --minutes 60

.PHONY: simulate
simulate: $(STAMP) ## Simulate 1000 seeds
	$(BIN)/mercury simulate --seeds 1000

.PHONY: bench
bench: $(STAMP) ## Measure
	$(BIN)/python -m benchmarks.messages
	$(BIN)/python -m benchmarks.queued_transaction
	$(BIN)/python -m benchmarks.reconcile --large --faults 100

.PHONY: clean
clean: ## Remove what was made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
