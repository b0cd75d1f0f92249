"""Messages that wait for a MakeConnection are found only by their address and the identity of the client."""

from mercury.testing.contract.fetching import *  # noqa: F403
