"""Which buffers have something to do, against the one definition of it."""

from mercury.testing.contract.deliverable import *  # noqa: F403
