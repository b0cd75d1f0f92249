"""Decision logs and stages of a reconciliation: named by options, by its file, or by the settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mercury.cli.main import app
from mercury.errors import ConfigurationError, StorageError
from mercury.reconcile import Config

FILE = """
[stores]
client = "sqlite:///client.db"
server = "sqlite:///server.db"
server_log = "sqlite:///by-file.db"
"""
TABLES = ("--client", "sqlite:///a.db", "--client-table", "a", "--server", "sqlite:///b.db", "--server-table", "b")


@pytest.fixture
def configs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Config]:
    """What the command would run with, in a folder of its own."""
    taken: list[Config] = []

    def take(config: Config, **_: object) -> None:
        taken.append(config)
        raise StorageError("enough is seen")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mercury.reconcile.reconcile", take)
    Path("reconcile.toml").write_text(FILE)
    return taken


def logs(configs: list[Config], *options: str) -> tuple[str | None, str | None]:
    ended = CliRunner().invoke(app, ["reconcile", "--config", "reconcile.toml", *TABLES, "--key", "id", *options])
    assert configs, ended.output
    return configs[-1].client_log, configs[-1].server_log


def test_a_log_is_named_by_the_file_and_by_options_which_win(configs: list[Config]) -> None:
    assert logs(configs) == (None, "sqlite:///by-file.db")
    options = ("--client-log", "sqlite:///by-option.db", "--server-log", "sqlite:///by-option-too.db")
    assert logs(configs, *options) == ("sqlite:///by-option.db", "sqlite:///by-option-too.db")


def test_a_log_that_is_not_named_is_that_of_the_settings(
    configs: list[Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERCURY_XA_DECISION_LOG", "sqlite:///by-settings.db")
    assert logs(configs) == ("sqlite:///by-settings.db", "sqlite:///by-file.db")


def test_stages_are_named_by_options_or_by_the_settings(configs: list[Config], monkeypatch: pytest.MonkeyPatch) -> None:
    logs(configs)
    assert configs[-1].server_stages == ()
    monkeypatch.setenv("MERCURY_STAGE_STORE", "sqlite:///by-settings.db")
    logs(configs)
    assert configs[-1].server_stages == (), "the file is on another machine"
    Path("by-settings.db").touch()
    logs(configs)
    assert configs[-1].server_stages == ("sqlite:///by-settings.db",)
    logs(configs, "--server-stage", "sqlite:///1.db", "--server-stage", "sqlite:///2.db")
    assert configs[-1].server_stages == ("sqlite:///1.db", "sqlite:///2.db")


def test_stage_without_a_store_of_its_server_is_refused() -> None:
    ended = CliRunner().invoke(app, ["reconcile", *TABLES, "--key", "id", "--server-stage", "sqlite:///1.db"])
    assert isinstance(ended.exception, ConfigurationError)
    assert "stores.stages: name the server's store too" in str(ended.exception)
