"""InvokerBuffers: rows are added without a lock, and consumed by the one `save_delivered` that commits."""

from mercury.testing.contract.invoker import *  # noqa: F403
from mercury.testing.contract.invoker_due import *  # noqa: F403
