"""What a page or an action gets of a request, and what it returns."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from mercury.console.users import ConsoleRole, ConsoleUser
from mercury.errors import MercuryError


class NotFound(MercuryError):
    """What the address names does not exist, or does not exist any more."""


class BadRequest(MercuryError):
    """A field of the address or the form has a value that is not possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request of a user who is let in."""

    #: The name of the page; empty = the overview.
    page: str
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    form: Mapping[str, Sequence[str]] = field(default_factory=dict)
    user: ConsoleUser
    #: Seconds since the epoch.
    now: float

    @property
    def is_operator(self) -> bool:
        """Whether the user may use actions."""
        return self.user.role is ConsoleRole.OPERATOR

    def text(self, name: str, default: str = "") -> str:
        """A field of the query, or of the form of an action, without surrounding blanks."""
        fields = self.form if name in self.form else self.query
        return (fields.get(name) or [default])[0].strip()

    def texts(self, name: str) -> tuple[str, ...]:
        """All values of a field."""
        return tuple(self.form.get(name) or self.query.get(name) or ())

    def given(self, name: str) -> str | None:
        """A field; ``None`` = it is empty or missing."""
        return self.text(name) or None

    def flag(self, name: str) -> bool:
        """Whether a box is checked."""
        return self.text(name) not in ("", "0", "no")

    def whole(self, name: str) -> str:
        """A field as it is, with its blanks and line breaks."""
        return (self.form.get(name) or [""])[0]

    def same_page(self, **changed: str | None) -> str:
        """The address of the same page with other fields; ``None`` removes a field."""
        fields = {name: list(values) for name, values in self.query.items()}
        for name, value in changed.items():
            fields[name] = [] if value is None else [value]
        return address(self.page, fields)


def address(page: str, fields: Mapping[str, Sequence[str]] | None = None) -> str:
    """The relative address of a page: all pages are on one level, so it is right below every prefix. Empty fields are
    left out."""
    pairs = [(name, value) for name, values in (fields or {}).items() for value in values if value]
    return f"{page or './'}?{urlencode(pairs)}" if pairs else page or "./"


def link(page: str, **fields: object) -> str:
    """The relative address of a page; fields that are ``None`` or empty are left out."""
    return address(page, {name: [str(value)] for name, value in fields.items() if value is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A page to show."""

    template: str
    values: Mapping[str, object] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class Document:
    """A document that another program has written, as HTML: it is shown without scripts and forms."""

    body: bytes


class Tone(enum.Enum):
    """How a note is shown."""

    DONE = "done"
    #: Only a part was done.
    CAUTION = "caution"
    #: Nothing was done.
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """An action has ended: the browser goes to a page, which shows the note once."""

    #: A relative address: see `link`.
    to: str
    note: str
    tone: Tone = Tone.DONE
    #: A link behind the note, without line breaks: a relative address and its text; ``None`` = there is none.
    more: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The content of a page that asks before an action is done."""

    title: str
    #: What will happen, in sentences.
    lines: Sequence[str]
    #: The action's path, and the fields that it gets.
    action: str
    fields: Mapping[str, str]
    #: The text of the button.
    button: str
    #: The page to go back to.
    back: str
    danger: bool = True
    #: A field of its own that must be checked, with its text; ``None`` = there is none.
    box: tuple[str, str] | None = None
    #: Texts to fill in: name, label, value, and whether it is a large one.
    inputs: Sequence[tuple[str, str, str, bool]] = ()

    def view(self) -> View:
        """The page."""
        return View(template="question.html", values={"question": self})
