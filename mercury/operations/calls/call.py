"""One call, and what has to be known for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mercury.operations.calls.arguments import MOST_ITEMS, Arguments
from mercury.storage.audit import Actor

On = TypeVar("On")


class UnknownCall(Exception):
    """There is no call of this name."""


@dataclass(frozen=True, slots=True)
class Call(Generic[On]):
    """What an operator sees (`changes` is false) or does."""

    run: Callable[[On, Arguments, Actor], Any]
    #: The names of its arguments.
    names: tuple[str, ...] = ()
    changes: bool = False


class Calls(Generic[On]):
    """The calls on one store.

    :param target: what the calls work on.
    :param table: the calls by name.
    """

    def __init__(self, target: On, table: Mapping[str, Call[On]]) -> None:
        self._target = target
        self._table = table

    def changes(self, name: str) -> bool:
        """Whether a call changes the store.

        :raises UnknownCall: no call has this name.
        """
        return self._call(name).changes

    def run(self, name: str, given: Mapping[str, object], actor: Actor, most: int = MOST_ITEMS) -> Any:
        """The result of a call: a value that JSON has.

        :param most: the largest ``limit``, and the longest list of an argument.
        :raises UnknownCall: no call has this name.
        :raises ValueError: an argument is not valid.
        :raises NotPossible: the action cannot be done; the text says why. Nothing is changed.
        :raises StorageError: the store failed.
        """
        call = self._call(name)
        arguments = Arguments(given, most)
        arguments.only(call.names)
        return call.run(self._target, arguments, actor)

    def _call(self, name: str) -> Call[On]:
        if name not in self._table:
            raise UnknownCall(name)
        return self._table[name]
