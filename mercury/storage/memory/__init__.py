"""The in-memory store: a real implementation of the contract that lives as long as its process.

One lock for each sequence object, two-phase locking, the lock order RMD, InvokerBuffer, RMS; what a transaction
changes is private until its commit, which installs everything under one mutex (figure 3-18).
"""

from mercury.storage.memory.store import MemoryStore

__all__ = ["MemoryStore"]
