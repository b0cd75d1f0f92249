"""The right client and the right server, by the names of those in `accepting`, with which they are compared:
``mercury serve tests.trial.planted.refusing:client``, or ``:server``.
"""

from __future__ import annotations

from mercury.trial.programs.client import app as client
from mercury.trial.programs.server import app as server

__all__ = ["client", "server"]
