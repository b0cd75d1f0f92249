"""Queries that a manager sends ahead with those of another: see `Statements.read_ahead`."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select

from mercury.storage.sql.prepared import Prepared, among
from mercury.storage.sql.schema import INVOKER_BUFFER, RMD_SEQUENCE, RMS_SEQUENCE
from mercury.storage.sql.statements import Question

BUFFERS = Prepared(select(INVOKER_BUFFER).where(among(INVOKER_BUFFER.c.sequence, "sequences")))
RMDS = Prepared(select(RMD_SEQUENCE).where(among(RMD_SEQUENCE.c.identifier, "identifiers")))
RMS_OF_KEYS = Prepared(
    select(RMS_SEQUENCE).where(among(RMS_SEQUENCE.c.key_id, "names")).order_by(RMS_SEQUENCE.c.position)
)


def buffers(sequences: Collection[str]) -> Question:
    """The records of these buffers."""
    return BUFFERS, {"sequences": sorted(sequences)}


def rmds(identifiers: Collection[str]) -> Question:
    """The records of these destination sequences."""
    return RMDS, {"identifiers": sorted(identifiers)}


def rms_of_keys(names: Collection[str]) -> Question:
    """The records of the source sequences of keys, which are given by their digests."""
    return RMS_OF_KEYS, {"names": list(names)}
