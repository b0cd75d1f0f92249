"""Dead letters: stored until they are redriven or deleted."""

from mercury.testing.contract.dead_letters import *  # noqa: F403
