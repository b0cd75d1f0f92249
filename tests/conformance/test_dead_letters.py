"""Dead letters: kept until somebody takes them."""

from mercury.testing.contract.dead_letters import *  # noqa: F403
