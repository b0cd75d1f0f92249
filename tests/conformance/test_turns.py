"""Fair scheduling: peers take turns, and of one peer the sequence that was served longest ago comes first."""

from mercury.testing.contract.turns import *  # noqa: F403
