"""The tree of errors: its drawing agrees with the classes."""

from __future__ import annotations

import inspect
import pickle
import re
from enum import Enum

import pytest

from mercury import errors
from mercury.errors import (
    ApplicationFault,
    CapabilityError,
    Conflict,
    MercuryError,
    ProtocolFault,
    StorageError,
    TransientStorageError,
)
from mercury.statemachine.faults import Fault, FaultCode
from mercury.statemachine.protocol import SoapVersion
from mercury.wire.application_fault import read_application_fault, write_application_fault

CLASSES = {name: value for name, value in vars(errors).items() if inspect.isclass(value)}


def drawn() -> dict[str, str]:
    """Each class of the drawing in the module's docstring with the one above it."""
    parents: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ([ │├└─]*)(\w+)", line)
        if found is None:
            continue
        depth, name = len(found[1]), found[2]
        while above and above[-1][0] >= depth:
            above.pop()
        parents[name] = above[-1][1] if above else "Exception"
        above.append((depth, name))
    return parents


def test_the_drawing_is_the_tree() -> None:
    assert drawn() == {name: value.__bases__[0].__name__ for name, value in CLASSES.items()}
    assert len(CLASSES) > 10


def test_every_error_of_ours_can_be_caught_as_one() -> None:
    assert all(issubclass(each, MercuryError) for each in CLASSES.values())
    assert not issubclass(MercuryError, ValueError | AssertionError)


def test_every_error_says_what_it_means() -> None:
    assert [name for name, value in CLASSES.items() if not (value.__doc__ or "").strip()] == []


def test_transient_errors_have_a_type_of_their_own() -> None:
    """Retry code never reads a text."""
    assert issubclass(Conflict, TransientStorageError)
    assert issubclass(TransientStorageError, StorageError)
    assert not issubclass(CapabilityError, TransientStorageError)


def test_a_protocol_fault_has_all_that_is_needed_to_write_it() -> None:
    fault = Fault(code=FaultCode.UNKNOWN_SEQUENCE, reason="no such sequence", identifier="urn:1")
    error = ProtocolFault(fault)
    assert error.fault is fault
    assert str(error) == "no such sequence"


def test_an_application_fault_has_a_text_for_people_and_a_code_for_programs() -> None:
    plain = ApplicationFault("sold out")
    assert (str(plain), plain.reason, plain.code, plain.detail) == ("sold out", "sold out", "", b"")
    full = ApplicationFault("sold out", code="SoldOut", detail=b"<item>7</item>")
    assert (full.code, full.detail) == ("SoldOut", b"<item>7</item>")


@pytest.mark.parametrize(
    "error",
    [ApplicationFault("sold out", code="SoldOut", detail=b"<a/>"), Conflict("the claim is lost"), MercuryError("text")],
    ids=lambda each: type(each).__name__,
)
def test_errors_can_cross_to_another_process(error: MercuryError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise self


def test_fault_made_of_an_exception_without_a_text_says_so_to_its_client() -> None:
    fault = ApplicationFault(UnreadableError(), code="Broken")  # type: ignore[arg-type]
    assert (str(fault), fault.reason, fault.code) == (
        "(its text cannot be read)",
        "(its text cannot be read)",
        "Broken",
    )


class Reason(str, Enum):  # noqa: UP042  what was written before there was StrEnum
    GONE = "gone"


def test_other_values_than_texts_in_a_fault_are_written_as_texts() -> None:
    fault = ApplicationFault(ValueError("not below zero"), code=404)  # type: ignore[arg-type]
    assert (str(fault), fault.reason, fault.code) == ("not below zero", "not below zero", "404")
    assert ApplicationFault("no", code=Reason.GONE).code == "gone"
    empty = ApplicationFault(None, code=None)  # type: ignore[arg-type]
    assert (empty.reason, empty.code) == ("", "")
    for soap in SoapVersion:
        read = read_application_fault(write_application_fault(soap, fault))
        assert (read.reason, read.code) == ("not below zero", "404")
