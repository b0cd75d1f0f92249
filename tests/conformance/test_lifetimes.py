"""Rows with times: they expire, or wait for their time."""

from mercury.testing.contract.lifetimes import *  # noqa: F403
