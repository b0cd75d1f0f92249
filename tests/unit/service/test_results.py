"""What the application's functions return: it is what they declare, and they have run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from mercury import ConfigurationError, Contract, DestinationPolicy, OnFailure, PayloadError, Service
from mercury import operation as declared
from mercury.service.definition import read_callback
from mercury.statemachine.retransmission import Backoff
from mercury.testing import Pair
from mercury.wire.envelope import Payload
from mercury.wire.scan import DEFAULT_LIMITS

CONTEXT: Any = SimpleNamespace(transaction=None, limits=DEFAULT_LIMITS)
ASKED = Payload(b'<Ask xmlns="urn:n"><number>1</number></Ask>', "{urn:n}Ask")


@dataclass
class Ask:
    number: int


@dataclass
class Told:
    number: int


@dataclass
class ToldMore(Told):
    why: str = "because"


@dataclass
class Other:
    number: int


def deferred(function: Callable[..., Any]) -> Callable[..., Any]:
    """An ordinary decorator, which hides from a check that the function is asynchronous."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def answer(function: Callable[..., Any], **options: Any) -> Payload | None:
    """The response of a handler to one request."""
    service = Service("desk", namespace="urn:n")
    service.operation(**options)(function)
    return service.operations[0].call(CONTEXT, ASKED)


# --- responses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", [None, Other(1), b"<Told/>"], ids=["nothing", "another class", "raw XML"])
def test_result_of_another_type_than_is_declared_is_an_error_of_the_handler(result: Any) -> None:
    def ask(asked: Ask) -> Told:
        del asked
        return result  # type: ignore[no-any-return]

    with pytest.raises(PayloadError, match=rf"ask has returned {type(result).__name__}, not Told"):
        answer(ask)


@pytest.mark.parametrize("result", [None, Other(1)], ids=["nothing", "a class"])
def test_result_that_is_no_xml_where_xml_is_declared_is_an_error_of_the_handler(result: Any) -> None:
    def ask(asked: bytes) -> bytes:
        del asked
        return result  # type: ignore[no-any-return]

    with pytest.raises(PayloadError, match=rf"ask has returned {type(result).__name__}, not bytes"):
        answer(ask)


def test_result_of_another_type_in_a_list_is_an_error_of_the_handler() -> None:
    def ask(asked: list[Ask]) -> list[Told]:
        return [None for _ in asked]  # type: ignore[misc]

    with pytest.raises(PayloadError, match="ask has returned NoneType, not Told"):
        answer(ask, batch=2)


def test_result_of_a_subclass_is_written_as_the_element_that_is_declared() -> None:
    def ask(asked: Ask) -> Told:
        return ToldMore(asked.number)

    response = answer(ask)
    assert response is not None
    assert response.xml == b'<Told xmlns="urn:n"><number>1</number><why>because</why></Told>'
    assert response.name == "{urn:n}Told"


def test_request_whose_handler_forgets_its_result_is_not_answered_with_an_empty_body() -> None:
    policy = DestinationPolicy(on_failure=OnFailure.SKIP, max_attempts=2, redelivery=Backoff(base=1))
    service = Service("desk", policy=policy)

    @service.operation
    def ask(asked: Ask) -> Told:
        del asked
        return None  # type: ignore[return-value]

    with Pair(service) as pair:
        future = pair.to().request(Ask(1), response=Told)
        pair.run()
        assert getattr(future.exception(0), "code", "") == "Failed"
        assert [letter.reason for letter in pair.server.dead_letters()] == [
            "given up: PayloadError: test_request_whose_handler_forgets_its_result_is_not_answered_with_an_empty_body"
            ".<locals>.ask has returned NoneType, not Told"
        ]


# --- functions without a type of their result ------------------------------------------------------------------------


def test_handler_without_a_type_of_its_result_is_refused() -> None:
    def ask(asked: Ask):  # type: ignore[no-untyped-def]
        return Told(asked.number)

    def ask_all(asked: list[Ask]):  # type: ignore[no-untyped-def]
        return [Told(each.number) for each in asked]

    with pytest.raises(ConfigurationError, match="ask: the result needs a type: a class, or None for no response"):
        answer(ask)
    with pytest.raises(ConfigurationError, match="ask_all: the result needs a type"):
        answer(ask_all, batch=2)


def test_operation_of_a_contract_without_a_type_of_its_result_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the result needs a type"):

        class Desk(Contract):
            @declared
            def ask(self, asked: Ask):  # type: ignore[no-untyped-def]
                raise NotImplementedError


def test_callback_needs_no_type_of_its_result() -> None:
    told = []

    def note(answer: Told):  # type: ignore[no-untyped-def]
        told.append(answer)

    read_callback(note)(CONTEXT, Payload(b"<Told><number>1</number></Told>", "Told"))
    assert told == [Told(1)]


# --- functions that have not run -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"batch": 2}], ids=["one", "lists"])
def test_asynchronous_handler_behind_a_decorator_has_failed_and_consumes_nothing(options: dict[str, Any]) -> None:
    async def ask(asked: Ask) -> None: ...

    async def ask_all(asked: list[Ask]) -> None: ...

    with pytest.raises(ConfigurationError, match="has returned a coroutine, and has not run"):
        answer(deferred(ask_all if options else ask), **options)


def test_handler_that_yields_has_failed() -> None:
    def ask(asked: Ask) -> None:
        yield asked  # type: ignore[misc]

    with pytest.raises(ConfigurationError, match="has returned a generator, and has not run"):
        answer(ask)


def test_asynchronous_callback_behind_a_decorator_has_failed() -> None:
    async def note(answer: Told) -> None: ...

    with pytest.raises(ConfigurationError, match="has returned a coroutine, and has not run"):
        read_callback(deferred(note))(CONTEXT, Payload(b"<Told><number>1</number></Told>", "Told"))


def test_handler_whose_decorator_runs_the_coroutine_is_an_ordinary_one() -> None:
    def run(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with pytest.raises(StopIteration) as ended:
                function(*args, **kwargs).send(None)
            return ended.value.value

        return call

    @run
    async def ask(asked: Ask) -> Told:
        return Told(asked.number)

    response = answer(ask)
    assert response is not None
    assert response.name == "{urn:n}Told"


# --- operations of a contract ----------------------------------------------------------------------------------------


class Desk(Contract):
    @declared
    def ask(self, asked: Ask) -> Told:
        raise NotImplementedError

    @declared
    def raw(self, asked: bytes) -> bytes:
        raise NotImplementedError


def test_handlers_of_a_contract_have_its_time_limit() -> None:
    desk = Desk("desk", time_limit=3)

    @desk.ask.handler
    def ask(asked: Ask) -> Told:
        return Told(asked.number)

    assert [each.time_limit for each in desk.operations] == [3]


def test_raw_operation_of_a_contract_has_the_element_of_its_name_whatever_the_handler_is_called() -> None:
    desk = Desk("desk", namespace="urn:n")

    @desk.raw.handler
    def handle(asked: bytes) -> bytes:
        return asked

    @desk.ask.handler
    def answer_it(asked: Ask) -> Told:
        return Told(asked.number)

    assert [(each.name, each.element, each.action) for each in desk.operations] == [
        ("raw", "raw", "urn:n/raw"),
        ("ask", "Ask", "urn:n/Ask"),
    ]
