"""Locks: which transactions wait for others. A second thread does the waiting, and each wait has a timeout."""

from mercury.testing.contract.locking import *  # noqa: F403
