"""The statements on the buffers of source sequences, as `rms_rows` executes them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Double,
    Integer,
    and_,
    bindparam,
    delete,
    exists,
    func,
    not_,
    or_,
    select,
    text,
    update,
)

from mercury.storage.sql.acknowledged_rows import OF_SEQUENCE
from mercury.storage.sql.prepared import Prepared, among, sought
from mercury.storage.sql.schema import IS_ABANDONED, RMS_BODY, RMS_MESSAGE, RMS_SEQUENCE, UNACKNOWLEDGED_RESPONSE

ROW, BODY, SEQUENCE = RMS_MESSAGE, RMS_BODY, RMS_SEQUENCE
#: `OutboundMessage.retained`
RETAINED = and_(ROW.c.relates_to.is_not(None), ROW.c.answered)
#: It does not wait for its time.
IN_TIME = or_(ROW.c.not_before.is_(None), ROW.c.number.is_not(None))
#: `OutboundMessage.settled`
SETTLED = and_(ROW.c.acknowledged, or_(ROW.c.answered, not_(ROW.c.replays)))
BODY_COLUMNS = tuple(column for column in BODY.c if column.name != "message_id")
WITH_BODY = select(ROW, *BODY_COLUMNS).join_from(ROW, BODY, sought(BODY.c.message_id, ROW.c.message_id))
LIMIT = bindparam("limit", type_=Integer)
#: The rows without a number of one key; those of them that expire.
WAITS = and_(ROW.c.key_id == bindparam("key_id"), ROW.c.number.is_(None))
EXPIRES = and_(WAITS, ROW.c.expires_at.is_not(None))
#: One row: whether there is an abandonment, and whether a row expires.
ABANDONED = Prepared(
    select(
        exists().where(ROW.c.key_id == bindparam("key_id"), IS_ABANDONED).label("abandoned"),
        exists().where(EXPIRES).label("expires"),
    )
)
ABANDONMENTS = Prepared(WITH_BODY.where(ROW.c.key_id == bindparam("key_id"), IS_ABANDONED).order_by(ROW.c.position))
EXPIRED = Prepared(
    WITH_BODY.where(EXPIRES, ROW.c.expires_at <= bindparam("now", type_=Double)).order_by(ROW.c.position).limit(LIMIT)
)
TRANSMITTED = and_(OF_SEQUENCE, not_(SETTLED))
FETCHABLE = and_(among(ROW.c.request, "names"), ROW.c.number.is_not(None), not_(ROW.c.acknowledged))


def _responses() -> Prepared:
    """Responses by their requests, with the bodies that fit: a column has the length of each body."""
    size = func.length(BODY.c.payload)
    upto = func.sum(size).over(order_by=(size, ROW.c.position))
    whole = select(ROW.c.position, size.label("size"), upto.label("upto")).where(FETCHABLE)
    sizes = whole.join_from(ROW, BODY, sought(BODY.c.message_id, ROW.c.message_id)).cte("sizes")
    fits = or_(sizes.c.upto <= bindparam("most_bytes", type_=BigInteger), sizes.c.upto == sizes.c.size)
    body = and_(sought(BODY.c.message_id, ROW.c.message_id), fits)
    rows = select(ROW, *BODY_COLUMNS).join_from(sizes, ROW, sought(ROW.c.position, sizes.c.position))
    return Prepared(rows.join(BODY, body, isouter=True).order_by(ROW.c.position))


RESPONSES = _responses()
NAMED = among(ROW.c.message_id, "names")
ANSWERED = Prepared(update(ROW).where(NAMED).values(answered=True))
ANSWERED_TOO = Prepared(update(ROW).where(NAMED).values(answered=True, acknowledged=True))
CONSUMED = Prepared(update(ROW).where(NAMED).values(answered=True, expects_response=False, replays=False))
WITHOUT_BODY, WHOLE = Prepared(select(ROW).where(NAMED)), Prepared(WITH_BODY.where(NAMED))
DELETE_BODIES = Prepared(delete(BODY).where(among(BODY.c.message_id, "names")))
DELETE_ROWS = Prepared(delete(ROW).where(NAMED).returning(ROW.c.attachments_id))
UNANSWERED = Prepared(WITH_BODY.where(OF_SEQUENCE, ROW.c.expects_response, not_(ROW.c.answered)).order_by(ROW.c.number))


def _backlog() -> Prepared:
    mine = select(SEQUENCE.c.id).where(SEQUENCE.c.key_id == bindparam("key_id"))
    waiting = select(func.count()).where(ROW.c.key_id == bindparam("key_id"), ROW.c.number.is_(None))
    numbered = select(func.count()).where(ROW.c.sequence_id.in_(mine), ROW.c.number.is_not(None))
    return Prepared(select((waiting.scalar_subquery() + numbered.scalar_subquery()).label("rows")))


BACKLOG = _backlog()

#: Answered from an index, without reading the rows.
RESPONSE_BYTES = select(func.coalesce(func.sum(ROW.c.size), 0).label("bytes")).where(text(UNACKNOWLEDGED_RESPONSE))
