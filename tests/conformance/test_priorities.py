"""Among source keys that are due, those with a higher priority come first."""

from mercury.testing.contract.priorities import *  # noqa: F403
