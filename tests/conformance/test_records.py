"""Storing a record loses and changes none of its fields."""

from mercury.testing.contract.records import *  # noqa: F403
