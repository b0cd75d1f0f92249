"""What a transaction has appended can be worked on at its end, under the lock of its key, if that is free."""

from mercury.testing.contract.appended_rows import *  # noqa: F403
