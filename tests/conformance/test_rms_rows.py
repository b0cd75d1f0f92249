"""The life cycle of a row: appended, numbered, transmitted, acknowledged, answered, deleted."""

from mercury.testing.contract.message_bytes import *  # noqa: F403
from mercury.testing.contract.named_ends import *  # noqa: F403
from mercury.testing.contract.rms_responses import *  # noqa: F403
from mercury.testing.contract.rms_rows import *  # noqa: F403
from mercury.testing.contract.rms_several import *  # noqa: F403
