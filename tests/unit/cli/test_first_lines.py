"""The first line of a process that listens names its address and its store as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mercury.cli import console, relay, serve
from mercury.service import serving
from mercury.storage.opening import open_sql_store

#: Its end could be taken for markup.
AT = "http://[fe80::1]:8000"


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes listen at `AT` and end when they have said so."""

    def started(_app: Any, _settings: Any, on_started: Callable[[], None], *_: Any) -> None:
        on_started()

    def bind(*_: Any, **__: Any) -> SimpleNamespace:
        return SimpleNamespace(url=AT, socket=SimpleNamespace(close=lambda: None))

    modules: tuple[ModuleType, ...] = (console, relay, serve)
    for module in modules:
        monkeypatch.setattr(module, "run_until_signal", lambda *_: None)
    monkeypatch.setattr(serving, "bind", bind)
    monkeypatch.setattr(serving, "server_for", started)


@pytest.mark.usefixtures("listening")
def test_a_server_names_its_address(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(serve, "load_object", lambda _: None)
    monkeypatch.setattr(serve, "load_application", lambda *_: None)
    serve.serve("shop:app")
    assert capsys.readouterr().out == f"serving shop:app at {AT} (Ctrl-C ends it)\n"


@pytest.mark.usefixtures("listening")
def test_a_relay_names_both_addresses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = "http://[fe80::2]:8000/services/shop"
    relay.relay(listen="[::1]:0", to=to, store=f"sqlite:///{tmp_path}/relay.db")
    assert capsys.readouterr().out == f"relaying {AT}/services/shop to {to} (Ctrl-C ends it)\n"


@pytest.mark.usefixtures("listening")
def test_a_console_names_its_address_and_its_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "[prod]"
    folder.mkdir()
    url = f"sqlite:///{folder / 'x.db'}"
    open_sql_store(url).close()
    console.console(store=url)
    assert capsys.readouterr().out.splitlines()[0] == f"the console of {url} is at {AT} (Ctrl-C ends it)"
