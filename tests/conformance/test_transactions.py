"""Transactions: isolation, roll-back, savepoints, and the actions after a commit."""

from mercury.testing.contract.commits import *  # noqa: F403
from mercury.testing.contract.transactions import *  # noqa: F403
