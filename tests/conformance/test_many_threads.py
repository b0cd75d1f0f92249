"""Many threads at once: nothing is lost, nothing is repeated, and each one's order is kept."""

from mercury.testing.contract.many_threads import *  # noqa: F403
