"""A store that fails, or crashes its process, at a commit that a test chooses."""

from __future__ import annotations

from contextlib import AbstractContextManager

from mercury.errors import TransientStorageError
from mercury.simulation.wrapped import WrappedStore
from mercury.storage.api import StorageManager, Transaction


class Crash(BaseException):
    """The simulated process has crashed. It is not an `Exception`, so that no handler catches it."""


class SimulatedStore(WrappedStore):
    """Wraps a store, counts its commits, and fails or crashes at some of them.

    Transactions that join one of the application's (`StorageManager.join`) are not counted, because the application
    commits them.

    :param inner: the store that does the work. Its committed state survives a crash.
    """

    def __init__(self, inner: StorageManager) -> None:
        super().__init__(inner)
        #: The number of attempted commits.
        self.commits = 0
        #: The numbers, from 1, of the commits that fail, and of those before or after which the process crashes.
        self.failing_commits: set[int] = set()
        self.crash_before_commit: set[int] = set()
        self.crash_after_commit: set[int] = set()

    def fail(self, commit: int = 1) -> None:
        """Let a future commit fail with `TransientStorageError`, as after a deadlock: it is rolled back.

        :param commit: 1 = the next one.
        """
        self.failing_commits.add(self.commits + commit)

    def crash_before(self, commit: int = 1) -> None:
        """Let the process crash directly before a future commit, which is rolled back.

        :param commit: 1 = the next one.
        """
        self.crash_before_commit.add(self.commits + commit)

    def crash_after(self, commit: int = 1) -> None:
        """Let the process crash directly after a future commit, before it can send anything.

        :param commit: 1 = the next one.
        """
        self.crash_after_commit.add(self.commits + commit)

    def leave(self, inner: AbstractContextManager[Transaction], error: BaseException | None) -> None:
        failure: BaseException | None = None
        if error is None:
            self.commits += 1
            if self.commits in self.crash_before_commit:
                failure = Crash(f"before commit {self.commits}")
            elif self.commits in self.failing_commits:
                failure = TransientStorageError(f"commit {self.commits} fails")
        crashes_after = error is None and self.commits in self.crash_after_commit
        super().leave(inner, error or failure)
        if failure is not None:
            raise failure
        if crashes_after:
            raise Crash(f"after commit {self.commits}")
