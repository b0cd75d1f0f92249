"""Source sequences: found by key, by identifier and by what asked for them; due when there is work."""

from mercury.testing.contract.rms_sequences import *  # noqa: F403
