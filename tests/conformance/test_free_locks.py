"""Locks that others hold can be left out instead of waiting for them."""

from mercury.testing.contract.free_locks import *  # noqa: F403
