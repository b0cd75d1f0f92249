"""Claims: one worker at a time holds a claim, and a transaction under a lost claim is rolled back."""

from mercury.testing.contract.claims import *  # noqa: F403
