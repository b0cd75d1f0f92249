"""Commands without a test file of their own, and properties of all commands."""

from __future__ import annotations

import json
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

from tests.acceptance.processes import MERCURY, PATIENCE, ROOT, Ended, each, environment, mercury, python

COMMANDS = (
    (),
    ("serve",),
    ("send",),
    ("reconcile",),
    ("sequences",),
    ("sequences", "list"),
    ("sequences", "show"),
    ("sequences", "close"),
    ("sequences", "terminate"),
    ("sequences", "suspend"),
    ("sequences", "resume"),
    ("sequences", "restart"),
    ("services",),
    ("services", "list"),
    ("services", "pause"),
    ("services", "resume"),
    ("nodes",),
    ("audit",),
    ("check",),
    ("check", "node"),
    ("check", "store"),
    ("check", "queue"),
    ("completion",),
    ("simulate",),
    ("tables",),
    ("wsdl",),
    ("wsdl", "show"),
    ("wsdl", "print"),
    ("config",),
    ("config", "show"),
    ("pg",),
    ("pg", "start"),
    ("pg", "stop"),
    ("pg", "url"),
)


def test_every_command_explains_itself() -> None:
    for command, ended in each(COMMANDS, lambda command: mercury(*command, "--help")):
        assert (ended.code, ended.err) == (0, "")
        assert " ".join(("Usage: mercury", *command)) in ended.out


def test_the_short_option_helps_too() -> None:
    ended = mercury("-h")
    assert ended.code == 0
    assert "Exit codes:" in ended.out


def test_the_version_is_the_packages() -> None:
    ended = mercury("--version")
    assert (ended.code, ended.out, ended.err) == (0, f"mercury {version('mercury-rm')}\n", "")


def test_python_runs_the_command_too() -> None:
    ended = python("-m", "mercury", "--version")
    assert (ended.code, ended.out, ended.err) == (0, f"mercury {version('mercury-rm')}\n", "")


WRONG = (
    ("nothing",),
    ("--nothing",),
    ("serve",),
    ("serve", "a:b", "--port", "70000"),
    ("serve", "a:b", "--role", "sometimes"),
    ("send",),
    ("send", "http://127.0.0.1:1/", "--body", "<a/>", "--action", "a", "--timeout", "0"),
    ("send", "http://127.0.0.1:1/", "--body", "<a/>", "--action", "a", "--rm", "2.0"),
    ("sequences", "show"),
    ("sequences", "close"),
    ("sequences", "terminate"),
    ("sequences", "suspend"),
    ("services", "pause"),
    ("completion", "csh"),
    ("reconcile", "--rows", "0"),
    ("simulate", "--seeds", "0"),
    ("simulate", "--output", "xml"),
    ("tables", "more"),
    ("wsdl", "show"),
    ("wsdl", "print"),
    ("pg", "start", "--output", "xml"),
    ("pg", "url", "orders"),
)


def test_wrong_options_are_explained() -> None:
    for _, ended in each(WRONG, lambda arguments: mercury(*arguments)):
        assert (ended.code, ended.out) == (2, ""), ended
        assert "Usage: mercury" in ended.err
        assert "Error" in ended.err


# --- tables --------------------------------------------------------------------------------------------------------


def test_password_in_the_url_of_a_server_is_refused_in_one_line_that_does_not_show_it() -> None:
    for command in (("sequences", "list", "--at"), ("wsdl", "show")):
        for token in ({}, {"MERCURY_CONSOLE_TOKEN": "x" * 32}):
            ended = mercury(*command, "http://till:s3cret@127.0.0.1:1", **token)
            assert (ended.code, ended.out) == (2, ""), command
            assert ended.err == "error: a user's name and password cannot be part of the URL of a server\n", command


def test_the_tables_are_the_documentation() -> None:
    ended = mercury("tables")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (ROOT / "docs" / "state-machines.md").read_text()


def test_the_tables_are_a_value() -> None:
    value = mercury("tables", "--output", "json").value
    assert [table["name"] for table in value] == ["RMSSequence", "RMDSequence", "InvokerBuffer"]
    for table in value:
        assert set(table) == {"name", "factors", "states", "events", "rows"}
        assert {row["state"] for row in table["rows"]} == set(table["states"])


def test_a_reader_that_goes_away_is_no_error() -> None:
    ended = subprocess.run(
        ["sh", "-c", f"'{MERCURY}' tables | true"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment({}),
    )
    assert (ended.stdout, ended.stderr) == ("", "")


# --- simulate ------------------------------------------------------------------------------------------------------

SIMULATE = ("simulate", "--seeds", "3", "--messages", "20", "--output", "json")


def test_the_simulation_counts_what_it_did_and_repeats_it() -> None:
    first, second = mercury(*SIMULATE), mercury(*SIMULATE)
    assert (first.code, first.err) == (0, "")
    value = first.value
    assert set(value) >= {"seeds", "messages", "virtual_seconds", "seconds", "cpu_seconds", "violations"}
    assert (value["seeds"], value["violations"]) == (3, 0)
    assert value["messages"] >= 60
    assert value["virtual_seconds"] > value["seconds"] > 0
    assert value["cpu_seconds"] > 0
    measured = {"seconds": 0, "cpu_seconds": 0}
    assert {**second.value, **measured} == {**value, **measured}


def test_the_simulation_speaks_to_people_too() -> None:
    ended = mercury("simulate", "--seeds", "2", "--messages", "10")
    assert (ended.code, ended.err) == (0, "")
    assert re.fullmatch(
        r"2 seeds, \d+ messages, \d+ requests on the wire\n"
        r"\d+ crash(es)?, \d+ virtual seconds in \d+\.\d s, \d+\.\d s of CPU\n"
        r"0 violations\n",
        ended.out,
    )


def test_a_trace_replays_identically_in_another_process() -> None:
    traces = [
        mercury("simulate", "--seed", "7", "--messages", "20", "--trace", PYTHONHASHSEED=seed) for seed in ("1", "2")
    ]
    assert [trace.code for trace in traces] == [0, 0]
    first, second = (trace.out.splitlines()[:-2] for trace in traces)  # the last lines have real seconds
    assert len(first) > 100
    assert first == second
    assert "replay" not in traces[0].out


def test_a_trace_leaves_the_json_alone() -> None:
    ended = mercury("simulate", "--seed", "7", "--messages", "5", "--trace", "--output", "json")
    assert ended.code == 0
    assert ended.value["seeds"] == 1
    assert "posts CreateSequence" in ended.err


# --- config --------------------------------------------------------------------------------------------------------


def test_settings_are_shown_with_where_they_come_from_and_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "mercury.toml").write_text('[source]\nwindow = 8\n[http]\nport = 9000\n[log]\nlevel = "DEBUG"\n')
    settings = {"MERCURY_HTTP_PORT": "9001", "MERCURY_STORE": "postgresql://me:secret@db/rm"}
    ended = mercury("config", "show", cwd=tmp_path, **settings)
    assert (ended.code, ended.err) == (0, "")
    shown = {line.split()[0]: line.split()[1:] for line in ended.out.splitlines()}
    assert shown["source.window"] == ["8", "mercury.toml"]
    assert shown["http.port"] == ["9001", "MERCURY_HTTP_PORT"]
    assert shown["http.timeout"] == ["30.0", "default"]
    assert shown["store"] == ["postgresql://me:***@db/rm", "MERCURY_STORE"]
    assert "secret" not in ended.out

    value = mercury("config", "show", "--output", "json", cwd=tmp_path, **settings)
    assert "secret" not in value.out
    by_name = {each["setting"]: each for each in json.loads(value.out)}
    assert by_name["log.level"] == {
        "setting": "log.level",
        "value": "DEBUG",
        "from": "mercury.toml",
        "variable": "MERCURY_LOG_LEVEL",
    }


def test_a_settings_file_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text("[source]\nwindow = 4\n")
    for ended in (
        mercury("config", "show", "--config", str(tmp_path / "shop.toml")),
        mercury("config", "show", MERCURY_CONFIG=str(tmp_path / "shop.toml")),
    ):
        assert re.search(r"^source\.window +4 +.*shop\.toml", ended.out, re.MULTILINE)


WRONG_FILES = {
    "[http]\nprot = 1\n": ("'http.prot'", "'http.port'"),
    "[http]\nport = 'x'\n": ("http.port", "whole number"),
    "port = \n": ("not TOML",),
    "[source.protocol]\nrm = '3'\n": ("source.protocol.rm", "1.0, 1.1"),
    "[source.retransmission]\nbase = 0\n": ("source.retransmission.base: ", "above 0"),
    "[source]\nwindow = -4\n": ("source.window: -4", "at least 1"),
    "[http]\nport = 99999\n": ("http.port: 99999", "65535"),
    "[log]\nlevel = 'loud'\n": ("log.level: 'loud'", "DEBUG"),
}


def test_a_wrong_settings_file_is_explained_in_one_line(tmp_path: Path) -> None:
    def show(text: str) -> Ended:
        file = tmp_path / f"{hash(text)}.toml"
        file.write_text(text)
        return mercury("config", "show", "--config", str(file))

    for text, ended in each(WRONG_FILES, show):
        ended.refused(*WRONG_FILES[text])


def test_a_store_that_there_is_not_is_refused_before_anything_is_opened() -> None:
    wrong = {
        "oracle:x": "oracle has to be followed by ://",
        "postgresql+psycopg//me:secret@db/rm": "postgresql+psycopg has to be followed by ://",
        "postgresql+psycopg://me:secret@db:54e2/rm": "the port behind the host is not a number",
        "mysql://me:secret@db/rm": "'mysql://me:***@db/rm'",
        "sqlite://": "sqlite:///FILE",
    }
    for store, ended in each(wrong, lambda store: mercury("config", "show", MERCURY_STORE=store)):
        ended.refused("store: ", wrong[store], "(set by MERCURY_STORE)")
        assert "secret" not in ended.err
    assert mercury("config", "show", MERCURY_STORE="postgresql+psycopg://db.example/rm").code == 0
