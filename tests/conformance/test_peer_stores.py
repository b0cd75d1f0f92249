"""The stores of destinations: the first answer decides, and others are refused."""

from mercury.testing.contract.peer_stores import *  # noqa: F403
