"""The pieces of binary parts in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Executable, Text, bindparam, delete, exists, select

from mercury.errors import StorageError
from mercury.storage.attachments import Attachments, piece_length, pieces_of, rechunked
from mercury.storage.sql.dialect import chunks
from mercury.storage.sql.schema import ATTACHMENT, ATTACHMENT_PIECE, DEAD_LETTER, INVOKER_MESSAGE, RMS_MESSAGE
from mercury.storage.sql.statements import Statements
from mercury.storage.sql.values import checksum

if TYPE_CHECKING:
    from sqlalchemy import Connection

PIECE = ATTACHMENT_PIECE
READ = select(PIECE.c.content, PIECE.c.checksum).where(
    PIECE.c.attachments_id == bindparam("of", type_=Text),
    PIECE.c.part == bindparam("in_part", type_=BigInteger),
    PIECE.c.number == bindparam("at", type_=BigInteger),
)
#: Those that neither a message nor a dead letter names; in one statement, because a redrive moves the name meanwhile.
UNUSED = select(ATTACHMENT.c.id).where(
    *(
        ~exists().where(table.c.attachments_id == ATTACHMENT.c.id)
        for table in (INVOKER_MESSAGE, RMS_MESSAGE, DEAD_LETTER)
    )
)


class SqlAttachments:
    """`AttachmentManager` of one transaction."""

    def __init__(self, transaction: Statements) -> None:
        self._tx = transaction

    def write(self, identifier: str, part: int, pieces: Iterable[bytes]) -> int:
        self._tx.store.attachments_used()
        self._tx.insert(ATTACHMENT, [{"id": identifier}], ignore=True)
        size = 0
        for number, piece in enumerate(rechunked(pieces)):
            row = {"attachments_id": identifier, "part": part, "number": number, "content": piece}
            self._tx.insert(PIECE, [row | {"checksum": checksum(piece)}])
            size += len(piece)
        return size

    def read(self, attachments: Attachments, part: int) -> Iterator[bytes]:
        return pieces_of(partial(self.piece, attachments, part))

    def piece(self, attachments: Attachments, part: int, number: int) -> bytes:
        self._tx.store.attachments_used()
        length = piece_length(attachments.parts[part].size, number)
        if not length:
            return b""
        rows = self._tx.read(READ, {"of": attachments.id, "in_part": part, "at": number})
        content = rows[0]["content"] if rows else b""
        if len(content) != length or rows[0]["checksum"] != checksum(content):
            what = "is damaged" if rows else "is not in the store any more"
            raise StorageError(f"piece {number} of part {part} of the attachments {attachments.id} {what}")
        return content

    def remove_unnamed(self) -> None:
        """Remove those that rows deleted by this transaction had, unless another row has them now: a dead letter, or a
        redriven message. They can be read until the commit."""
        for part in chunks(self._tx.unnamed):
            rows = self._tx.read_locked(UNUSED.where(ATTACHMENT.c.id.in_(part)))
            if rows:
                for statement in _removals([row["id"] for row in rows]):
                    self._tx.write(statement)
        self._tx.unnamed.clear()


def _removals(identifiers: list[str]) -> tuple[Executable, Executable]:
    return (
        delete(PIECE).where(PIECE.c.attachments_id.in_(identifiers)),
        delete(ATTACHMENT).where(ATTACHMENT.c.id.in_(identifiers)),
    )


def remove_unused(connection: Connection, limit: int) -> tuple[int, bool]:
    """As `RetentionStore.remove_attachments`, and whether attachments are left. Each statement of ``connection`` is a
    transaction of its own."""
    unused = list(connection.execute(UNUSED.limit(limit)).scalars())
    if unused:  # nothing names them again: only a row that names one passes the name on, in one commit
        for statement in _removals(unused):
            connection.execute(statement)
    return len(unused), connection.execute(select(ATTACHMENT.c.id).limit(1)).first() is not None
