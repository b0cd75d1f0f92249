"""The rows of a key are compared with a model made of dictionaries, in random sequences of operations."""

from mercury.testing.contract.model import *  # noqa: F403
