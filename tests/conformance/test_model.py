"""The rows of a key against a model of dictionaries, under walks that nobody thought of."""

from mercury.testing.contract.model import *  # noqa: F403
