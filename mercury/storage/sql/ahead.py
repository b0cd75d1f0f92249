"""Queries that a manager sends ahead with those of another: see `Statements.read_ahead`."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import func, literal, select

from mercury.storage.names import DESTINATION_CLAIM
from mercury.storage.sql.dialect import chunks
from mercury.storage.sql.prepared import Prepared, among, least
from mercury.storage.sql.schema import (
    CLAIM,
    INVOKER_BUFFER,
    INVOKER_MESSAGE,
    PAUSED_SERVICE,
    RMD_SEQUENCE,
    RMS_SEQUENCE,
)
from mercury.storage.sql.statements import Question

BUFFERS = Prepared(select(INVOKER_BUFFER).where(among(INVOKER_BUFFER.c.sequence, "sequences")))
#: The position of the newest row of all buffers.
NEWEST = select(func.coalesce(least(INVOKER_MESSAGE.c.position, greatest=True), 0)).scalar_subquery()
#: The owner of the claim on a buffer: a row by its key, which the planner never makes a table of all claims.
HOLDER = (
    select(CLAIM.c.owner)
    .where(CLAIM.c.resource == literal(DESTINATION_CLAIM) + INVOKER_BUFFER.c.sequence)
    .scalar_subquery()
)
_TO_DELIVER = (
    select(INVOKER_BUFFER, NEWEST.label("newest"), HOLDER.label("holder"))
    .where(among(INVOKER_BUFFER.c.sequence, "sequences"))
    .order_by(INVOKER_BUFFER.c.sequence)
)
#: Locks buffers, in the order of all locks, and reads them; and only those that no other transaction has locked.
LOCKED_BUFFERS = Prepared(_TO_DELIVER.with_for_update())
FREE_BUFFERS = Prepared(_TO_DELIVER.with_for_update(skip_locked=True))
PAUSED = Prepared(select(PAUSED_SERVICE.c.service))
RMDS = Prepared(select(RMD_SEQUENCE).where(among(RMD_SEQUENCE.c.identifier, "identifiers")))
RMS_OF_KEYS = Prepared(
    select(RMS_SEQUENCE).where(among(RMS_SEQUENCE.c.key_id, "names")).order_by(RMS_SEQUENCE.c.position)
)


def buffers(sequences: Collection[str]) -> Question:
    """The records of these buffers."""
    return BUFFERS, {"sequences": sorted(sequences)}


def locked_buffers(sequences: Collection[str], *, only_free: bool = False) -> Question:
    """The records of these buffers, locked, each with the position of the newest row as ``newest``, and the
    owner of its claim as ``holder``.

    :param only_free: without those that other transactions have locked.
    """
    return FREE_BUFFERS if only_free else LOCKED_BUFFERS, {"sequences": sorted(sequences)}


def paused() -> Question:
    """The services that are paused."""
    return PAUSED, {}


def behind_locks(read: Collection[str], delivered: Collection[str], *, only_free: bool) -> list[Question]:
    """What is read behind the locks of destination sequences; see `RMDSequenceManager.lock`."""
    questions = [buffers(part) for part in chunks(sorted(read))]
    locks = [locked_buffers(part, only_free=only_free) for part in chunks(sorted(delivered))]
    return [*questions, *locks, paused()] if delivered else questions


def rmds(identifiers: Collection[str]) -> Question:
    """The records of these destination sequences."""
    return RMDS, {"identifiers": sorted(identifiers)}


def rms_of_keys(names: Collection[str]) -> Question:
    """The records of the source sequences of keys, which are given by their digests."""
    return RMS_OF_KEYS, {"names": list(names)}
