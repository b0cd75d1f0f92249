"""What a clock that was ahead has put off is brought forward; what is meant to be far ahead stays there."""

from mercury.testing.contract.clock import *  # noqa: F403
