"""Nothing of a record is lost or changed by being stored."""

from mercury.testing.contract.records import *  # noqa: F403
