"""Claims: one worker at a time, and nothing is kept of one whose claim is gone."""

from mercury.testing.contract.claims import *  # noqa: F403
