"""Buffers that a transaction locks first, delivers from and saves, as delivery on arrival does."""

from mercury.testing.contract.locked_buffers import *  # noqa: F403
