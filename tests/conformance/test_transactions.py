"""One unit of work: what others see of it, what is left of it, and what is told after it."""

from mercury.testing.contract.commits import *  # noqa: F403
from mercury.testing.contract.transactions import *  # noqa: F403
