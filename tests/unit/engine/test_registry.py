"""Which operation of a service gets a message."""

from __future__ import annotations

from mercury.engine.application import ANY_ACTION, Operation
from mercury.engine.registry import Registry

PUT = Operation(name="Put", action="urn:shop/Put", response_action=None, call=lambda *_: None)
REST = Operation(name="Rest", action=ANY_ACTION, response_action="urn:shop/Response", call=lambda *_: None)


def test_operation_is_that_of_the_action_or_else_the_one_for_every_action() -> None:
    registry = Registry()
    registry.add_service("shop", [PUT, REST])
    registry.add_service("strict", [PUT])
    assert registry.operation("shop", PUT.action) is PUT
    assert registry.operation("shop", "urn:shop/Other") is REST
    assert registry.operation("strict", PUT.action) is PUT
    assert registry.operation("strict", "urn:shop/Other") is None
    assert registry.operation("unknown", PUT.action) is None


def test_the_bare_last_message_of_ws_rm_1_0_which_has_no_action_is_for_no_operation() -> None:
    registry = Registry()
    registry.add_service("shop", [PUT, REST])
    assert registry.operation("shop", "") is None
