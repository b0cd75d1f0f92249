"""The in-memory store: a full implementation of the contract, which ends with its process.

It has one lock for each sequence object, two-phase locking, and the lock order RMD, InvokerBuffer, RMS. The changes of
a transaction are private until its commit, which installs them under one mutex (figure 3-18).
"""

from mercury.storage.memory.store import MemoryStore

__all__ = ["MemoryStore"]
