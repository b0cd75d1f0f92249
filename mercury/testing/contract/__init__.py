"""The tests that every store must pass: `StoreContract`.

Each file has the tests of one part of the contract, as functions of a store. No test depends on the kind of the store:
`Capabilities` and the attributes of `StoreContract` name the parts of the contract that a store does not have.
"""

from __future__ import annotations

import pytest

#: The files with tests.
TESTS = (
    "appended_rows",
    "attachments",
    "claims",
    "clock",
    "commits",
    "dead_letters",
    "deliverable",
    "fetching",
    "free_locks",
    "gauges",
    "invoker",
    "invoker_due",
    "lifetimes",
    "locked_buffers",
    "locking",
    "many_threads",
    "members",
    "model",
    "named_ends",
    "priorities",
    "records",
    "peer_stores",
    "replay",
    "rmd",
    "rms_responses",
    "message_bytes",
    "rms_rows",
    "rms_several",
    "rms_sequences",
    "transactions",
    "turns",
)
#: The files with helpers of the tests.
TOOLS = ("builders", "ending", "outbox", "threads")

# Called before the files are imported, so that a failed assertion shows its values.
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in (*TESTS, *TOOLS)))
