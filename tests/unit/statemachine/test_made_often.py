"""Frozen dataclasses that set their fields in less time are as those of `dataclasses` in all else."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from mercury.statemachine.made_often import made_often


@dataclass(frozen=True, slots=True)
class Plain:
    kind: str
    frozen: int = 7
    tags: list[str] = field(default_factory=list)
    note: str = field(default="", compare=False, kw_only=True)
    size: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", len(self.kind))


@made_often
@dataclass(frozen=True, slots=True)
class Made:
    kind: str
    frozen: int = 7
    tags: list[str] = field(default_factory=list)
    note: str = field(default="", compare=False, kw_only=True)
    size: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", len(self.kind))


def test_objects_have_the_same_fields() -> None:
    for given in ({"kind": "a"}, {"kind": "ab", "frozen": 1, "tags": ["x"], "note": "n"}):
        assert repr(Made(**given)) == repr(Plain(**given)).replace("Plain", "Made")  # type: ignore[arg-type]
    assert repr(Made("a", 2, ["t"])) == repr(Plain("a", 2, ["t"])).replace("Plain", "Made")
    assert Made("a").tags is not Made("a").tags


def test_objects_are_of_their_class_and_refuse_to_be_changed() -> None:
    made = Made("a")
    assert type(made) is Made
    with pytest.raises(FrozenInstanceError):
        made.kind = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del made.kind


def test_objects_are_compared_copied_and_pickled_as_before() -> None:
    made = Made("a", note="n")
    assert made == Made("a")
    assert made != Made("b")
    for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made)), replace(made)):
        assert type(other) is Made
        assert repr(other) == repr(made)


class Derived(Made):
    """It has a ``__dict__`` besides the slots."""


def test_objects_of_a_subclass_are_made_as_before() -> None:
    made = Derived("ab", note="n")
    assert type(made) is Derived
    assert repr(made) == repr(Plain("ab", note="n")).replace("Plain", "Derived")
    with pytest.raises(FrozenInstanceError):
        made.kind = "b"  # type: ignore[misc]


def test_signature_and_refusals_are_as_before() -> None:
    made, plain = (inspect.signature(each).parameters for each in (Made, Plain))
    assert [*made] == [*plain]
    assert [(each.kind, each.annotation) for each in made.values()] == [
        (each.kind, each.annotation) for each in plain.values()
    ]
    with pytest.raises(TypeError):
        Made()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Made("a", 1, [], "n")  # type: ignore[misc]
    with pytest.raises(TypeError):
        Made("a", size=3)  # type: ignore[call-arg]
