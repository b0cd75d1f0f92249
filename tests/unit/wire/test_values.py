"""Lexical forms, names and actions; and the public names of the package."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mercury.wire
from mercury.statemachine.protocol import RmVersion
from mercury.wire import MAKE_CONNECTION_ACTION, MC_ANONYMOUS, RmMessage, rm_action
from mercury.wire.ns import clark, local_of, namespace_of
from mercury.wire.values import duration, escape, escape_attribute, seconds

from .samples import MC, RM10, RM11


def test_the_public_names_are_sorted_and_there() -> None:
    names = mercury.wire.__all__
    assert names == sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    assert all(hasattr(mercury.wire, name) for name in names)


@pytest.mark.parametrize(
    ("message", "last_step", "versions"),
    [
        (RmMessage.CREATE_SEQUENCE, "CreateSequence", (RM10, RM11)),  # ACT-01
        (RmMessage.CREATE_SEQUENCE_RESPONSE, "CreateSequenceResponse", (RM10, RM11)),  # ACT-02
        (RmMessage.TERMINATE_SEQUENCE, "TerminateSequence", (RM10, RM11)),  # ACT-03
        (RmMessage.TERMINATE_SEQUENCE_RESPONSE, "TerminateSequenceResponse", (RM11,)),  # ACT-04
        (RmMessage.CLOSE_SEQUENCE, "CloseSequence", (RM11,)),  # ACT-05
        (RmMessage.CLOSE_SEQUENCE_RESPONSE, "CloseSequenceResponse", (RM11,)),  # ACT-05
        (RmMessage.SEQUENCE_ACKNOWLEDGEMENT, "SequenceAcknowledgement", (RM10, RM11)),  # ACT-06
        (RmMessage.ACK_REQUESTED, "AckRequested", (RM10, RM11)),  # ACT-07
        (RmMessage.LAST_MESSAGE, "LastMessage", (RM10,)),  # ACT-08
    ],
)
def test_actions(message: RmMessage, last_step: str, versions: tuple[str, ...]) -> None:
    for rm, uri in ((RmVersion.RM10, RM10), (RmVersion.RM11, RM11)):
        if uri in versions:
            assert rm_action(rm, message) == f"{uri}/{last_step}"
        else:
            with pytest.raises(ValueError, match="has no"):
                rm_action(rm, message)


def test_the_constants_of_make_connection() -> None:
    assert f"{MC}/MakeConnection" == MAKE_CONNECTION_ACTION  # ACT-10, NS-03
    assert f"{MC}/anonymous?id=" == MC_ANONYMOUS  # NS-11


def test_names_in_clark_notation_come_apart_again() -> None:
    for uri, local in (("urn:a", "b"), ("", "b")):
        assert (namespace_of(clark(uri, local)), local_of(clark(uri, local))) == (uri, local)


@settings(derandomize=True)
@given(st.integers(1, 3_000_000_000).map(lambda milliseconds: milliseconds / 1000))
def test_a_duration_survives_to_the_millisecond(value: float) -> None:
    assert seconds(duration(value)) == value


@pytest.mark.parametrize(("value", "text"), [(3600, "PT3600S"), (0.5, "PT0.5S"), (0, "PT0.001S"), (1e-9, "PT0.001S")])
def test_a_duration_never_becomes_for_ever(value: float, text: str) -> None:
    # RM-CS-11: PT0S would mean forever.
    assert duration(value) == text


def test_characters_outside_xml_are_replaced() -> None:
    assert escape('<a b="&">]]>\t\n\r\x00\x1f\ud800\uffff') == '&lt;a b="&amp;"&gt;]]&gt;\t\n&#13;' + "\ufffd" * 4
    assert escape_attribute('"\t\n\r<\x0b') == "&quot;&#9;&#10;&#13;&lt;\ufffd"
