"""What every store must do, as tests: `StoreContract`.

Each file has the tests of one part of the contract, as functions of a store. No test asks which kind of store it has:
what a store does not promise is in its `Capabilities`, or said by the attributes of `StoreContract`.
"""

from __future__ import annotations

import pytest

#: The files with tests.
TESTS = (
    "claims",
    "clock",
    "commits",
    "dead_letters",
    "deliverable",
    "fetching",
    "invoker",
    "invoker_due",
    "locking",
    "many_threads",
    "model",
    "records",
    "rmd",
    "rms_responses",
    "rms_rows",
    "rms_sequences",
    "transactions",
    "turns",
)
#: What they are written with.
TOOLS = ("builders", "ending", "outbox", "threads")

# Before any of them is imported: a test that fails shows the values.
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in (*TESTS, *TOOLS)))
