"""After a clock was set back, work that was planned too far ahead becomes due; long pauses stay as they are."""

from mercury.testing.contract.clock import *  # noqa: F403
