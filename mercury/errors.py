"""The one tree of errors Mercury raises.

::

    MercuryError
    ├── ConfigurationError        a setting, an option or a registration is wrong; the text says what to change
    ├── PayloadError              a body cannot be turned into XML, or XML into the requested type
    ├── SequenceError
    │   ├── SequenceEnded         the sequence takes no more messages
    │   └── SequenceFailed        the sequence failed; its messages became dead letters
    ├── StorageError
    │   ├── TransientStorageError the same work may succeed when it is done again
    │   │   ├── Conflict          another transaction changed the row first, or the claim was lost
    │   │   └── NotActive         this process is not the active member, and may not write
    │   ├── DataError             the database refuses a value, and would refuse it again
    │   └── CapabilityError       the store does not have a capability that a call needs
    ├── OutcomeUnknown            it is not known whether a transaction is committed; do not repeat it
    ├── TransportError            the other side could not be reached, or did not answer in time
    ├── NotAuthenticated          raised by an ``authenticate`` hook: the request is refused with 401
    ├── Overloaded                a queue is full; nothing was stored; try again later
    ├── ProtocolFault             a SOAP fault: ours to send, or the peer's answer; carries the `Fault`
    └── ApplicationFault          a handler refuses a request on purpose; it travels reliably to the client

Local mistakes are ``ConfigurationError`` (a ``ValueError`` too) and ``PayloadError``; what a peer did wrong is
``ProtocolFault``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mercury.statemachine.faults import Fault


class MercuryError(Exception):
    """Base of every error that Mercury raises on purpose."""


class ConfigurationError(MercuryError, ValueError):
    """A setting, an option or a registration is wrong. The text says which one and what to do."""


class PayloadError(MercuryError):
    """A body is not well-formed XML, or does not fit the type it should have."""


class SequenceError(MercuryError):
    """A call is not possible because of the sequence's state."""


class SequenceEnded(SequenceError):
    """The sequence takes no more messages."""


class SequenceFailed(SequenceError):
    """The sequence failed. Its undelivered messages became dead letters."""


class StorageError(MercuryError):
    """The store failed. Nothing of the transaction is kept."""


class TransientStorageError(StorageError):
    """The store failed in a way that may pass. The transaction was rolled back and may be repeated as it was."""


class Conflict(TransientStorageError):
    """A conditional change found another value than it expected, or the claim it was made under is lost."""


class NotActive(TransientStorageError):
    """Another member is active, or none is: this process may not write to the store (the setting ``role``)."""


class DataError(StorageError):
    """The database works and refuses what was to be written: too long for an index, out of range, against a constraint.

    It would refuse the same again. Nothing of the transaction is kept.
    """


class CapabilityError(StorageError):
    """The store does not have a capability that the call needs. Nothing was written."""


class OutcomeUnknown(MercuryError):
    """The connection was lost during a commit, and the database cannot be queried for its outcome.

    The work is either committed or rolled back; find out which before you repeat it. Branches that are prepared in
    other databases wait for recovery, which gives all of them the same outcome.
    """


class TransportError(MercuryError):
    """A peer could not be reached, or broke the exchange off. Nothing is known about what it received."""


class NotAuthenticated(MercuryError):
    """Raised by an ``authenticate`` hook of the application's: the HTTP request is refused with status 401.

    :param challenge: the value of the WWW-Authenticate header of the answer.
    """

    def __init__(self, reason: str = "", *, challenge: str = "Bearer") -> None:
        super().__init__(reason)
        self.challenge = challenge


class Overloaded(MercuryError):
    """A queue or a backlog is full. Nothing was stored; the same may be tried again later."""


class ProtocolFault(MercuryError):
    """A SOAP fault. ``fault`` has all that is needed to write it on the wire or to act on it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


class ApplicationFault(MercuryError):
    """Raised by a handler to refuse a request on purpose; a callback or a future receives it as its error.

    The handler's work is rolled back; the fault and the consumption of the request commit together, and the
    fault is carried reliably on the response sequence.

    :param reason: text for people; of another value, such as an exception, its text.
    :param code: a short name for programs, without blanks; it travels in the fault's detail. Of another value, such as
        a number, its text.
    :param detail: XML of one element with more, or empty.
    :param element: the whole Fault element, as it came from a peer; empty where a handler raises it.
    """

    def __init__(self, reason: str, *, code: str = "", detail: bytes = b"", element: bytes = b"") -> None:
        # Where a type checker does not look, many give the exception that they have caught, or a number as the code.
        self.reason = _text(reason)
        super().__init__(self.reason)
        self.code = _text(code)
        self.detail = detail
        self.element = element


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else text_of(value)


def text_of(error: object) -> str:
    """The text of an exception. It may be of a class of the application whose ``__str__`` raises."""
    try:
        return str(error)
    except Exception:
        return "(its text cannot be read)"


def named(error: BaseException) -> str:
    """The text of an exception, after the name of its class."""
    return f"{type(error).__name__}: {text_of(error)}"
