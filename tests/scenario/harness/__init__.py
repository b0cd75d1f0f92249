"""Named stories: real engines over stores in memory, a clock that is advanced, and a wire that is a list.

No thread, socket or chance takes part. The wire, the clock and what works on a node are those of `mercury.testing`;
here are an application, policies that are easy to add up, and the simulation's checks (nothing is said before it is
committed). A `World` is a `Wire` with nodes; what they post becomes `Flight`s, each with a name for people
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
