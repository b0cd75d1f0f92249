"""A store finds exactly the buffers that have work by the definition in `mercury.statemachine.deliverable`."""

from mercury.testing.contract.deliverable import *  # noqa: F403
