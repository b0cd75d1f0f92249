"""Dead letters: stored until they are redriven or deleted."""

from mercury.testing.contract.attachments import *  # noqa: F403
