"""Who waits for whom. Whatever waits here is another thread, and nobody waits without a bound."""

from mercury.testing.contract.locking import *  # noqa: F403
