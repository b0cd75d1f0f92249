"""Source sequences: found by key, by identifier and by their CreateSequence; due when they have work."""

from mercury.testing.contract.rms_sequences import *  # noqa: F403
