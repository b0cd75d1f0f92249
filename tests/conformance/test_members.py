"""The active member: a process whose claim on being active is lost changes nothing in the store."""

from mercury.testing.contract.members import *  # noqa: F403
