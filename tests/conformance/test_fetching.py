"""What waits for a MakeConnection."""

from mercury.testing.contract.fetching import *  # noqa: F403
