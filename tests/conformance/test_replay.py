"""Messages with WS-Security: each is recorded once, until the record expires."""

from mercury.testing.contract.replay import *  # noqa: F403
