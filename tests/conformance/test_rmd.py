"""Destination sequences."""

from mercury.testing.contract.rmd import *  # noqa: F403
