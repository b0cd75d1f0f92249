"""The harness of the scenario tests: real engines with stores in memory, a fake clock, and a wire that is a list.

There are no threads, sockets or random choices. The wire, the clock and the process are those of `mercury.testing`;
this package adds an application, policies with simple intervals, and the simulation's checks (nothing is sent before it
is committed). A `World` is a `Wire` with nodes; their messages are `Flight`s, each with a name
(``message 3``, ``CreateSequenceResponse``, ``fault UnknownSequence``).
"""

from __future__ import annotations

from mercury.testing import Crash, Flight, name_of

from .link import Link
from .node import Node
from .pair import Pair
from .words import ASK, DESTINATION, EPOCH, NOTE, PATIENT, body, source, text_of
from .world import World

__all__ = [
    "ASK",
    "Crash",
    "DESTINATION",
    "EPOCH",
    "Flight",
    "Link",
    "NOTE",
    "Node",
    "PATIENT",
    "Pair",
    "World",
    "body",
    "name_of",
    "source",
    "text_of",
]
