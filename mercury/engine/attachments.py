"""Binary parts of messages between the wire and the store (decision 36)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from mercury.engine.ids import Ids
from mercury.storage.api import StorageManager, Transaction
from mercury.storage.attachments import Attachments, StoredPart, pieces_of
from mercury.wire.attachment import Attachment, LargePart


def store_parts(tx: Transaction, parts: Sequence[LargePart], ids: Ids) -> Attachments | None:
    """Store the large parts of a received message, in the transaction that stores the message.

    :returns: their names, for the row of the message; ``None`` = there are no parts.
    """
    if not parts:
        return None
    identifier = ids.new()
    for place, part in enumerate(parts):
        tx.attachments.write(identifier, place, part.pieces())
    return Attachments(identifier, tuple(StoredPart(part.content_id, part.size) for part in parts))


def stored_attachments(tx: Transaction, attachments: Attachments | None) -> tuple[tuple[str, Attachment], ...]:
    """The attachments of a stored message by Content-ID, which can be read in a transaction.

    :raises StorageError: while one is read: it is damaged.
    """
    if attachments is None:
        return ()
    places = enumerate(attachments.parts)
    return tuple((part.content_id, Attachment(_Content(tx, attachments, place), part.size)) for place, part in places)


def store_attachments(tx: Transaction, attachments: Sequence[tuple[str, Attachment]], ids: Ids) -> Attachments | None:
    """Store the attachments of a message that the application sends, in the transaction that stores the message.

    :returns: their names, for the row of the message; ``None`` = there are none.
    :raises PayloadError: the content of one is not bytes.
    """
    if not attachments:
        return None
    identifier = ids.new()
    parts = []
    for place, (content_id, attachment) in enumerate(attachments):
        parts.append(StoredPart(content_id, tx.attachments.write(identifier, place, attachment)))
    return Attachments(identifier, tuple(parts))


def parts_to_send(store: StorageManager, attachments: Attachments | None) -> tuple[LargePart, ...]:
    """The parts of a stored message, to be sent.

    Each piece is read in a transaction of its own: none is open while the network is used. If the message is removed
    meanwhile, because it was acknowledged, reading raises `StorageError`.
    """
    if attachments is None:
        return ()
    return tuple(
        LargePart(part.content_id, part.size, partial(_pieces, store, attachments, place))
        for place, part in enumerate(attachments.parts)
    )


def _pieces(store: StorageManager, attachments: Attachments, part: int) -> Iterator[bytes]:
    def piece(number: int) -> bytes:
        with store.transaction() as tx:
            return tx.attachments.piece(attachments, part, number)

    return pieces_of(piece)


@dataclass(frozen=True, slots=True)
class _Content:
    """The pieces of a part, from its beginning at every iteration."""

    tx: Transaction
    attachments: Attachments
    part: int

    def __iter__(self) -> Iterator[bytes]:
        return self.tx.attachments.read(self.attachments, self.part)
