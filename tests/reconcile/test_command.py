"""`mercury reconcile`: its output as text for people and as JSON for programs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mercury.cli.main import app
from mercury.reconcile import Verdict
from tests.acceptance.processes import MERCURY, environment, mercury
from tests.reconcile.shop import COMPARED, ORDERS, RECEIVED, Planted, fill, orders, planted, received

ROWS, EACH = 2000, 5

#: Seconds: Spark starts in ten, and much later on a machine that has other things to do.
PATIENCE = 240.0


@pytest.fixture
def shop(tmp_path: Path) -> Planted:
    sent = orders(ROWS)
    faults = planted(sent, EACH)
    fill(f"sqlite:///{tmp_path}/client.db", ORDERS, sent)
    fill(f"sqlite:///{tmp_path}/server.db", RECEIVED, received(faults.rows))
    return faults


def options(folder: Path) -> list[str]:
    return [
        *("--client", f"sqlite:///{folder}/client.db", "--client-table", "orders"),
        *("--server", f"sqlite:///{folder}/server.db", "--server-table", "received_orders"),
        *("--key", "id", "--compare", ",".join(COMPARED), "--order", "id", "--arrival", "arrival"),
    ]


def test_a_program_gets_one_object_and_a_person_the_report(shop: Planted, tmp_path: Path) -> None:
    """In a process of its own, with its own Spark."""
    ended = subprocess.run(
        [
            *(MERCURY, "reconcile", *options(tmp_path), "--out", str(tmp_path / "out"), "--master", "local[2]"),
            *("--client-store", "memory:", "--server-store", "memory:", "--correlation", "order:{id}", "-o", "json"),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment({}),
    )
    assert (ended.returncode, ended.stderr) == (1, ""), ended
    value = json.loads(ended.stdout)
    counts = {verdict: len(keys) for verdict, keys in shop.expected.items()}
    assert {name: value[name] for name in ("client_rows", "server_rows", "delivered", "lost", "duplicated")} == {
        "client_rows": ROWS,
        "server_rows": len(shop.rows),
        "delivered": ROWS - sum(counts.values()) + counts[Verdict.UNEXPECTED],
        "lost": EACH,
        "duplicated": EACH,
    }
    assert (value["altered"], value["unexpected"]) == (EACH, EACH)
    assert value["out_of_order"] == counts[Verdict.OUT_OF_ORDER]
    assert value["missing"] == {
        **dict.fromkeys(("not_handed_over", "waiting_in_rms", "in_flight", "in_invoker_buffer"), 0),
        **dict.fromkeys(("dead_letter", "in_doubt", "unknown"), 0),
        "lost": EACH,
    }
    assert value["seconds"] > 0
    assert value["report"] == str(tmp_path / "out" / "report.html")
    assert "Not reconciled" in Path(value["report"]).read_text()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("differences.csv", "differences.parquet", "report.html", "spark.log"),
    ]


def test_a_person_gets_a_summary(spark: object, shop: Planted, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["reconcile", *options(tmp_path)])
    assert found.exit_code == 1
    lines = [line.split() for line in found.stdout.splitlines()]
    assert ["5", "missing:", "unknown"] in lines
    assert ["5", "altered"] in lines
    assert found.stdout.splitlines()[0] == "Requests: orders (2,000 rows) -> received_orders (2,006 rows)"
    assert found.stdout.splitlines()[-1].startswith("not reconciled in ")


def test_options_win_over_the_file_and_equal_tables_end_well(spark: object, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/both.db"
    fill(url, ORDERS, orders(50))
    fill(url, RECEIVED, received(orders(50)))
    (tmp_path / "r.toml").write_text(
        f'[client]\nurl = "{url}"\ntable = "orders"\n[server]\nurl = "{url}"\ntable = "nothing"\n'
        '[compare]\nkey = ["id"]\ncolumns = ["amount"]\n'
    )
    found = CliRunner().invoke(
        app, ["reconcile", "-c", str(tmp_path / "r.toml"), "--server-table", "received_orders", "--output", "json"]
    )
    assert found.exit_code == 0, found.output
    value = json.loads(found.stdout)
    assert (value["reconciled"], value["delivered"], value["report"]) == (True, 50, None)


def test_rows_under_way_are_no_differences_unless_the_run_should_be_complete(spark: object, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/both.db"
    sent = orders(20)
    sent[4]["paid"] = False
    fill(url, ORDERS, sent)
    fill(url, RECEIVED, received([*sent[:4], *sent[5:]]))
    (tmp_path / "r.toml").write_text('[client]\nhanded_over = "paid"\n')
    arguments = ["reconcile", "-c", str(tmp_path / "r.toml"), *options(tmp_path)]
    arguments = [each.replace("client.db", "both.db").replace("server.db", "both.db") for each in arguments]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    found = CliRunner().invoke(app, [*arguments, "--complete", "--output", "json"])
    assert found.exit_code == 1
    assert json.loads(found.stdout)["missing"]["not_handed_over"] == 1


def test_unusable_command_ends_with_exit_code_two_and_one_line(tmp_path: Path) -> None:
    fill(f"sqlite:///{tmp_path}/client.db", ORDERS, [])
    mercury("reconcile").refused("client.url is missing")
    mercury("reconcile", *options(tmp_path)).refused("server.db", "no such file")
    mercury("reconcile", "--config", str(tmp_path / "no.toml")).refused("no.toml cannot be read")
    fill(f"sqlite:///{tmp_path}/server.db", RECEIVED, [])
    mercury("reconcile", *options(tmp_path), "--compare", "colour").refused("no column 'colour'")
    nobody = "postgresql+psycopg://me:secret@127.0.0.1:1/db"
    ended = mercury("reconcile", *options(tmp_path), "--server", nobody)
    ended.refused("me:***@127.0.0.1:1/db")
    assert "secret" not in ended.err
    mercury("reconcile", *options(tmp_path), PATH=str(tmp_path), JAVA_HOME=str(tmp_path)).refused("does not start")
