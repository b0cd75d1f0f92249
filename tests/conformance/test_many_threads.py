"""Many threads use a store at once: no row is lost or repeated, and the rows of each thread keep their order."""

from mercury.testing.contract.many_threads import *  # noqa: F403
