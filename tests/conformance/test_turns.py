"""Peers take turns at the application: whose buffer comes next, and which one of it."""

from mercury.testing.contract.turns import *  # noqa: F403
