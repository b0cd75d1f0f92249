"""Invoker buffers: rows come in without a lock, and go with the one mark that counts."""

from mercury.testing.contract.invoker import *  # noqa: F403
from mercury.testing.contract.invoker_due import *  # noqa: F403
