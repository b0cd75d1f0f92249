"""What waits in a store is counted from a limited number of rows."""

from mercury.testing.contract.gauges import *  # noqa: F403
