"""`mercury reconcile`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from mercury.cli.output import FAILED, UNUSABLE, Format, Output, console, fail, notes, show
from mercury.cli.progress_bar import progress_bar
from mercury.errors import StorageError

if TYPE_CHECKING:
    from mercury.reconcile.progress import Progress as OnProgress
    from mercury.reconcile.result import Result


def reconcile(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="A TOML file; options override it. See docs/reconcile.md.")
    ] = None,
    client: Annotated[str | None, typer.Option(metavar="URL", help="The client application's database.")] = None,
    client_table: Annotated[str | None, typer.Option(metavar="TABLE", help="Its table.")] = None,
    server: Annotated[str | None, typer.Option(metavar="URL", help="The server application's database.")] = None,
    server_table: Annotated[str | None, typer.Option(metavar="TABLE", help="Its table.")] = None,
    key: Annotated[str | None, typer.Option(metavar="COLUMN[,COLUMN]", help="Columns that identify a row.")] = None,
    compare: Annotated[str | None, typer.Option(metavar="COLUMN[,COLUMN]", help="Columns that must be equal.")] = None,
    order: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The client's column with the order of sending.")
    ] = None,
    arrival: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The server's column with the order of arrival.")
    ] = None,
    client_store: Annotated[str | None, typer.Option(metavar="URL", help="The client's Mercury store.")] = None,
    server_store: Annotated[str | None, typer.Option(metavar="URL", help="The server's Mercury store.")] = None,
    relay_store: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="The store of a relay on the way (repeatable, in the order of the way)."),
    ] = None,
    server_stage: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A stage of the server (repeatable); default: stage.store."),
    ] = None,
    client_log: Annotated[
        str | None, typer.Option(metavar="URL", help="The client's decision log; default: xa.decision_log.")
    ] = None,
    server_log: Annotated[
        str | None, typer.Option(metavar="URL", help="The server's decision log; default: xa.decision_log.")
    ] = None,
    correlation: Annotated[
        str | None, typer.Option(metavar="TEMPLATE", help="Template of a message's correlation, as order:{id}.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for the report and the differences.")
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows of each verdict that the report lists.")] = None,
    complete: Annotated[
        bool, typer.Option("--complete", help="Count rows that are still on their way as differences.")
    ] = False,
    master: Annotated[str | None, typer.Option(help="A Spark master's URL; default: this machine.")] = None,
    output: Output = Format.TEXT,
) -> None:
    """Compare a client's table with a server's, and give a verdict for every row.

    Exit code 0: every row was delivered once, unaltered and in order, or is still on its way; 1: there are differences;
    2: the comparison could not run.
    """
    from mercury.reconcile import make_config, read_file
    from mercury.reconcile import reconcile as run

    values = read_file(config) if config is not None else {}
    given: dict[str, dict[str, Any]] = {
        "client": {"url": client, "table": client_table, "order": order, "correlation": correlation},
        "server": {"url": server, "table": server_table, "arrival": arrival},
        "compare": {"key": _names(key), "columns": _names(compare)},
        "stores": {
            "client": client_store,
            "relays": relay_store or None,
            "stages": server_stage or None,
            "server": server_store,
            "client_log": client_log,
            "server_log": server_log,
        },
        "report": {"out": None if out is None else str(out), "rows": rows, "complete": complete or None},
        "spark": {"master": master},
    }
    for section, options in given.items():
        chosen = {name: value for name, value in options.items() if value is not None}
        if chosen:
            values[section] = {**values.get(section, {}), **chosen}
    _name_by_settings(values)
    settings = make_config(values)
    try:
        with _progress(shown=output is Format.TEXT) as on_progress:
            result = run(settings, progress=on_progress)
    except StorageError as error:
        fail(UNUSABLE, str(error))
    show(output, result.as_json(), lambda: _print_result(result))
    if not result.reconciled:
        raise typer.Exit(FAILED)


def _name_by_settings(values: dict[str, Any]) -> None:
    """Use the settings ``xa.decision_log`` and ``stage.store`` where none is named, so that transactions in doubt and
    messages in the stage do not count as lost. Those of other stores do no harm: only what belongs to the messages is
    read from them.
    """
    from mercury.reconcile.source import is_here
    from mercury.settings import load

    settings = load()
    stores, log, stage = values.get("stores", {}), settings.xa.decision_log, settings.stage.store
    if stage is not None and stores.get("server", "memory:") != "memory:" and is_here(stage):
        stores.setdefault("stages", [stage])
    for side in ("client", "server"):
        if log is not None and stores.get(side) is not None:
            stores.setdefault(f"{side}_log", log)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


@contextmanager
def _progress(*, shown: bool) -> Iterator[OnProgress]:
    with progress_bar(notes(), shown=shown) as bar:
        task = bar.add_task("", total=None)

        def on_progress(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        yield on_progress


def _print_result(result: Result) -> None:
    out = console()
    for direction in (result, result.response):
        if direction is not None:
            _print_direction(direction)
    for path in (result.report, result.differences):
        if path is not None:
            out.print(f"{'report' if path is result.report else 'differences'}: {path}", markup=False)
    verdict = "[green]reconciled[/green]" if result.reconciled else "[red]not reconciled[/red]"
    out.print(f"{verdict} in {result.seconds:.1f} s")


def _print_direction(result: Result) -> None:
    from mercury.reconcile import Verdict

    out = console()
    out.print(
        f"{result.title}: {result.client.table} ({result.client.rows:,} rows) "
        f"-> {result.server.table} ({result.server.rows:,} rows)",
        markup=False,
    )
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right")
    table.add_column()
    table.add_row(f"{result.delivered:,}", "[green]delivered[/green]")
    for where, count in sorted(result.missing.items(), key=lambda item: item[0].value):
        table.add_row(f"{count:,}", f"[yellow]missing: {where.value.replace('_', ' ')}[/yellow]")
    for verdict in (Verdict.DUPLICATED, Verdict.ALTERED, Verdict.UNEXPECTED, Verdict.OUT_OF_ORDER):
        style = "red" if result.counts[verdict] else "dim"
        table.add_row(f"{result.counts[verdict]:,}", f"[{style}]{verdict.value}[/{style}]")
    out.print(table)
    for note in result.notes:
        out.print(f"note: {escape(note)}")
