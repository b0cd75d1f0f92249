"""Named stories: real engines over stores in memory, a clock that is advanced, and a wire that is a list.

No thread, socket or chance takes part. A `World` has nodes; what they post becomes `Flight`s on its wire, each with a
name for people (``message 3``, ``CreateSequenceResponse``, ``fault UnknownSequence``). `World.lose`, `twice`, `hold`
and `alter` say by name what happens to the flights to come; `World.run` carries on until nothing is left to do now,
`World.advance` lets time pass.
"""

from __future__ import annotations

from .flights import name_of
from .link import Link
from .node import Node
from .pair import Pair
from .watched import Crash
from .words import ASK, DESTINATION, EPOCH, NOTE, PATIENT, body, source, text_of
from .world import World

__all__ = [
    "ASK",
    "Crash",
    "DESTINATION",
    "EPOCH",
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
