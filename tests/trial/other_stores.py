"""A planted defect: members with different stores are accepted, as if no answer named its store (decision 73)."""

from __future__ import annotations

from collections.abc import Callable

from mercury.engine.destination import creation
from mercury.engine.runtime.store_guard import StoreGuard
from mercury.service import endpoint


def accept_other_stores(replace: Callable[[object, str, object], None] = setattr) -> None:
    """Remove the guards from this process, before it opens a store. A wrapper program calls it, on both sides.

    :param replace: replaces an attribute of an object.
    """
    replace(StoreGuard, "check", lambda _guard, _outgoing, _address, result, **_: result)
    replace(StoreGuard, "needs_probe", lambda _guard, _outgoing, _address: False)
    replace(endpoint, "check_store", lambda _runtime, _headers: None)
    replace(creation, "is_made_there", lambda *_: True)
