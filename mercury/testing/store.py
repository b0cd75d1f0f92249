"""A store that fails, or takes its process with it, at the commit that a test names."""

from __future__ import annotations

from contextlib import AbstractContextManager

from mercury.errors import TransientStorageError
from mercury.simulation.wrapped import WrappedStore
from mercury.storage.api import StorageManager, Transaction


class Crash(BaseException):
    """The process is gone. Not an `Exception`: no handler may catch it."""


class SimulatedStore(WrappedStore):
    """A store that counts commits, and fails or crashes at some of them; else it is the store behind it.

    Transactions that are joined to one of the application's (`StorageManager.join`) are not counted: the application
    commits them.

    :param inner: the store behind it. What it has committed survives a crash.
    """

    def __init__(self, inner: StorageManager) -> None:
        super().__init__(inner)
        #: How many commits were tried.
        self.commits = 0
        #: By their number, from 1: commits that fail, and commits right before or after which the process crashes.
        self.failing_commits: set[int] = set()
        self.crash_before_commit: set[int] = set()
        self.crash_after_commit: set[int] = set()

    def fail(self, commit: int = 1) -> None:
        """A commit to come fails with `TransientStorageError`, as after a deadlock: nothing of it is kept.

        :param commit: 1 = the next one.
        """
        self.failing_commits.add(self.commits + commit)

    def crash_before(self, commit: int = 1) -> None:
        """The process crashes right before a commit to come; nothing of it is kept.

        :param commit: 1 = the next one.
        """
        self.crash_before_commit.add(self.commits + commit)

    def crash_after(self, commit: int = 1) -> None:
        """The process crashes right after a commit to come, before it can tell anybody.

        :param commit: 1 = the next one.
        """
        self.crash_after_commit.add(self.commits + commit)

    def leave(self, inner: AbstractContextManager[Transaction], error: BaseException | None) -> None:
        mishap: BaseException | None = None
        if error is None:
            self.commits += 1
            if self.commits in self.crash_before_commit:
                mishap = Crash(f"before commit {self.commits}")
            elif self.commits in self.failing_commits:
                mishap = TransientStorageError(f"commit {self.commits} fails")
        crashes_after = error is None and self.commits in self.crash_after_commit
        super().leave(inner, error or mishap)
        if mishap is not None:
            raise mishap
        if crashes_after:
            raise Crash(f"after commit {self.commits}")
