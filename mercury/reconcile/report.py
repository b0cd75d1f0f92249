"""The report: one HTML file that needs nothing else, for people who want to see what became of their rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from mercury.errors import ConfigurationError
from mercury.reconcile import charts
from mercury.reconcile.places import Where
from mercury.reconcile.result import Difference, Result
from mercury.reconcile.verdicts import Verdict, common_start

#: Characters of a value that a cell shows.
SHOWN = 90
#: Columns whose values stand in a row that has nothing else to show.
COLUMNS = 8

#: In the order in which a message passes them.
_WAY = (
    (Where.NOT_HANDED_OVER, "not yet handed over"),
    (Where.WAITING_IN_RMS, "waiting in the RMS"),
    (Where.IN_FLIGHT, "in flight"),
    (Where.IN_INVOKER_BUFFER, "in the InvokerBuffer"),
    (Where.IN_DOUBT, "in doubt"),
)
_ASIDE = ((Where.DEAD_LETTER, "given up: dead letters"), (Where.LOST, "lost"), (Where.UNKNOWN, "at an unknown place"))
_PLACE = dict((*_WAY, (Where.DEAD_LETTER, "dead letter"), *_ASIDE[1:]))

_EXPLAINED = {
    Verdict.MISSING: "On the client, and not (or not as often) on the server.",
    Verdict.DUPLICATED: "More often on the server than on the client.",
    Verdict.ALTERED: "Delivered, with another value in a compared column.",
    Verdict.UNEXPECTED: "On the server, and not on the client.",
    Verdict.OUT_OF_ORDER: "Delivered whole, but overtaken: the fewest rows that would have to move.",
}

_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def write_report(result: Result, file: Path) -> None:
    """Write the report.

    :raises ConfigurationError: the file can not be written.
    """
    try:
        file.write_text(page(result), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigurationError(f"{file} can not be written: {error.strerror}") from error


def page(result: Result) -> str:
    """The whole HTML."""
    style = files("mercury.reconcile").joinpath("report.css").read_text(encoding="utf-8")
    directions = [result] + ([result.response] if result.response is not None else [])
    body = [_banner(result)]
    for direction in directions:
        if len(directions) > 1:
            body.append(f"<h2>{_safe(direction.title)}</h2>")
        body += _direction(direction)
    body.append(_method(directions))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{_safe(_verdict(result))}: {_safe(result.client.table)} and {_safe(result.server.table)}</title>"
        f"<style>{style}</style></head><body><main>{''.join(body)}</main></body></html>\n"
    )


def _verdict(result: Result) -> str:
    return "Reconciled" if result.reconciled else "Not reconciled"


def _banner(result: Result) -> str:
    began = result.started_at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return (
        f'<header class="banner{"" if result.reconciled else " bad"}">'
        f'<h1><strong class="verdict">{_verdict(result)}</strong></h1><p>{_safe(_sentence(result))}</p>'
        f'<p class="soft"><code>{_safe(result.client.table)}</code> compared with '
        f"<code>{_safe(result.server.table)}</code> · {began} · {result.seconds:.1f} s</p></header>"
    )


def _sentence(result: Result) -> str:
    """What was found, in one sentence or two."""
    directions = [result] + ([result.response] if result.response is not None else [])
    rows, waiting = f"{result.client.rows:,} rows", sum(each.under_way for each in directions)
    wrong = sum(each.differing + each.disordered for each in directions) - waiting
    if wrong:
        return f"{wrong:,} {_plural(wrong, 'key')} of {rows} did not arrive as they should."
    if waiting:
        return f"Nothing is wrong with {rows}; {waiting:,} {'is' if waiting == 1 else 'are'} still on the way."
    whole = "whole and in order" if result.ordered else "and whole"
    back = f" All {result.response.client.rows:,} answers came back." if result.response is not None else ""
    return f"All {rows} are on the server, exactly once, {whole}.{back}"


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


def _direction(result: Result) -> list[str]:
    parts = [_tiles(result)]
    if result.missing:
        parts.append(_way(result))
    plots = [_delivery(result), _latency(result)]
    parts.append(f'<div class="pair">{"".join(plots)}</div>' if any(plots) else "")
    if result.notes:
        notes = "".join(f"<li>{_safe(note)}</li>" for note in result.notes)
        parts.append(f'<div class="card"><h3>To be known</h3><ul class="notes">{notes}</ul></div>')
    for verdict in (each for each in _TABLES if result.counts[each]):
        parts.append(_rows(result, verdict))
    return parts


def _tiles(result: Result) -> str:
    tiles = [
        ("good", result.delivered, "delivered"),
        ("wait", result.under_way, "on their way"),
        ("bad", result.counts[Verdict.MISSING] - result.under_way, "missing"),
        ("bad", result.counts[Verdict.DUPLICATED], "duplicated"),
        ("bad", result.counts[Verdict.ALTERED], "altered"),
        ("bad", result.counts[Verdict.UNEXPECTED], "unexpected"),
        ("bad", result.counts[Verdict.OUT_OF_ORDER] or result.disordered, "out of order"),
    ]
    if not result.ordered:
        tiles.pop()
    shown = (
        f'<div class="tile {kind if count else "zero"}"><b>{count:,}</b><span>{name}</span></div>'
        for kind, count, name in tiles
    )
    return f'<div class="tiles">{"".join(shown)}</div>'


def _way(result: Result) -> str:
    stops = [
        f'<div class="{"some" if (count := result.missing[where]) else ""}"><b>{count:,}</b><span>{name}</span></div>'
        for where, name in _WAY
    ]
    stops.append(f'<div class="end"><b>{result.delivered:,}</b><span>delivered</span></div>')
    aside = [
        f'<span class="bad">{result.missing[where]:,} {name}</span>' for where, name in _ASIDE if result.missing[where]
    ]
    return (
        '<div class="card"><h3>Where the rows are</h3>'
        f'<div class="way">{"".join(stops)}</div>'
        + (f'<div class="aside">{"".join(aside)}</div>' if aside else "")
        + "</div>"
    )


def _delivery(result: Result) -> str:
    if result.timeline is None or not (plot := charts.delivery(result.timeline, result.moments)):
        return ""
    sent, arrived = result.timeline.sent.total(), result.timeline.arrived.total()
    return (
        f'<div class="card"><h3>Delivery over time</h3>{plot}<div class="legend">'
        f'<span><i class="swatch sent"></i>sent <b>{sent:,}</b></span>'
        f'<span><i class="swatch"></i>arrived <b>{arrived:,}</b></span>{_moments(result)}'
        "<span>times are UTC</span></div></div>"
    )


def _moments(result: Result) -> str:
    """What happened meanwhile."""
    many = len(result.moments)
    return f'<span><i class="swatch moment"></i>marked <b>{many:,}</b></span>' if many else ""


def _latency(result: Result) -> str:
    if result.latency is None:
        return ""
    found = result.latency
    shares = ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"), (1.0, "max"))
    marks = "".join(f"<span>{name} <b>{charts.duration(found.quantile(share))}</b></span>" for share, name in shares)
    what = f"all {len(found.seconds):,} rows" if found.all_rows else f"a sample of {len(found.seconds):,} rows"
    return (
        f'<div class="card"><h3>From sent to arrived</h3>{charts.latency(found)}'
        f'<div class="legend">{marks}<span>{what}</span></div></div>'
    )


# --- rows ------------------------------------------------------------------------------------------------------------


def _rows(result: Result, verdict: Verdict) -> str:
    listed = sorted(result.listed.get(verdict, []), key=lambda each: (len(each.key), each.key))
    count = result.counts[verdict]
    headings, cells = _TABLES[verdict]
    head = "".join(_heading(heading) for heading in headings)
    body = "".join(f"<tr>{cells(each)}</tr>" for each in listed)
    more = ""
    if count > len(listed):
        where = f"in {result.differences.name}" if result.differences is not None else "not listed"
        rest = f"{len(listed):,} of {count:,} are shown; the other {count - len(listed):,} are {where}."
        more = f'<p class="more">{_safe(rest)}</p>'
    return (
        f'<section class="card"><h3>{verdict.value.capitalize()} <span class="count">{count:,}</span></h3>'
        f'<p class="soft">{_EXPLAINED[verdict]}</p><div class="wide">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}</section>"
    )


def _heading(text: str) -> str:
    """A heading, above its numbers where these are what stands below it."""
    return f'<th class="number">{_safe(text)}</th>' if text in _NUMBERS else f"<th>{_safe(text)}</th>"


def _key(each: Difference) -> str:
    return f'<td class="key" title="{_safe(each.key)}"><bdi>{_safe(each.key)}</bdi></td>'


def _missing(each: Difference) -> str:
    where = each.where or Where.UNKNOWN
    kind = " bad" if where in dict(_ASIDE) else ""
    reason = f' <span class="soft">{_safe(each.reason)}</span>' if each.reason else ""
    place = f'<td><span class="pill{kind}">{_PLACE[where]}</span>{reason}</td>'
    counts = _counts(each) if each.client_count > 1 else ""
    return f'{_key(each)}{place}<td class="value">{counts}{_all(each.client)}</td>'


def _counts(each: Difference) -> str:
    return f'<span class="name">{each.server_count} of {each.client_count} arrived</span> '


def _duplicated(each: Difference) -> str:
    differs = f'<div class="values">{_changes(each)}</div>' if each.altered else ""
    return (
        f'{_key(each)}<td class="number">{each.client_count:,}</td><td class="number">{each.server_count:,}</td>'
        f'<td class="value">{_all(each.client)}{differs}</td>'
    )


def _altered(each: Difference) -> str:
    ours, theirs = each.client or {}, each.server or {}
    rows = []
    for index, name in enumerate(each.altered):
        before, after = contrast(ours.get(name), theirs.get(name))
        lead = _key(each) if index == 0 else '<td class="key"></td>'
        rows.append(f'{lead}<td>{_safe(name)}</td><td class="value">{before}</td><td class="value">{after}</td>')
    return "</tr><tr>".join(rows)


def _changes(each: Difference) -> str:
    ours, theirs = each.client or {}, each.server or {}
    return "".join(
        '<span class="one"><span class="name">{}</span> {} / {}</span>'.format(
            _safe(name), *contrast(ours.get(name), theirs.get(name))
        )
        for name in each.altered
    )


def _unexpected(each: Difference) -> str:
    return f'{_key(each)}<td class="number">{each.server_count:,}</td><td class="value">{_all(each.server)}</td>'


def _out_of_order(each: Difference) -> str:
    if each.position is None or each.expected_position is None:
        return f'{_key(each)}<td class="number">?</td><td class="number">?</td><td></td>'
    late = each.position - each.expected_position
    how = f"{abs(late):,} {_plural(abs(late), 'place')} {'late' if late > 0 else 'early'}"
    return (
        f'{_key(each)}<td class="number">{each.expected_position:,}</td><td class="number">{each.position:,}</td>'
        f"<td>{how}</td>"
    )


#: Headings of columns that have numbers.
_NUMBERS = frozenset({"on the client", "on the server", "sent as", "arrived as"})
_TABLES = {
    Verdict.MISSING: (("key", "where it is", "the client's values"), _missing),
    Verdict.DUPLICATED: (("key", "on the client", "on the server", "the client's values"), _duplicated),
    Verdict.ALTERED: (("key", "column", "client", "server"), _altered),
    Verdict.UNEXPECTED: (("key", "on the server", "the server's values"), _unexpected),
    Verdict.OUT_OF_ORDER: (("key", "sent as", "arrived as", ""), _out_of_order),
}


def _all(values: Mapping[str, str | None] | None) -> str:
    found = list((values or {}).items())
    shown = "".join(
        f'<span class="one"><span class="name">{_safe(name)}</span> {_value(value)}</span>'
        for name, value in found[:COLUMNS]
    )
    more = f'<span class="soft">and {len(found) - COLUMNS} more</span>' if len(found) > COLUMNS else ""
    return f'<span class="values">{shown}{more}</span>'


def _value(value: str | None) -> str:
    if value is None:
        return '<span class="null">null</span>'
    return f"<bdi>{_safe(_cut(value))}</bdi>"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text):,} characters)"


def contrast(ours: str | None, theirs: str | None) -> tuple[str, str]:
    """Two values as HTML, what differs marked, with the text around it if they are long."""
    if ours is None or theirs is None or ours == theirs:
        return _value(ours), _value(theirs)
    ahead = common_start(ours, theirs)
    behind = common_start(ours[ahead:][::-1], theirs[ahead:][::-1])
    return _marked(ours, ahead, behind, "mark"), _marked(theirs, ahead, behind, 'mark class="now"')


def _marked(text: str, ahead: int, behind: int, tag: str) -> str:
    margin = SHOWN // 4
    start, middle, end = text[:ahead], text[ahead : len(text) - behind], text[len(text) - behind :] if behind else ""
    start = start if len(start) <= margin else f"…{start[-margin:]}"
    end = end if len(end) <= margin else f"{end[:margin]}…"
    marked = f"<{tag}>{_safe(_cut(middle))}</mark>" if middle else ""
    return f"<bdi>{_safe(start)}{marked}{_safe(end)}</bdi>"


def _safe(text: str) -> str:
    """A text as HTML."""
    return escape(visible(text))


def visible(text: str) -> str:
    """Characters that can not be seen, or that turn the text around them, as their numbers."""
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


# --- how it was done -------------------------------------------------------------------------------------------------


def _method(directions: Sequence[Result]) -> str:
    lines: list[tuple[str, str]] = []
    for each in directions:
        for side in (each.client, each.server):
            lines.append((side.name, f"{side.table} in {side.url}: {side.rows:,} rows, {side.consistency.value}"))
        how = f"computed by Spark's tasks ({each.computed_here})" if each.computed_here else "computed by the databases"
        lines.append(
            (
                "key ranges",
                f"{each.ranges:,} with a checksum each, {how}; {each.ranges_read:,} of them read row by row",
            )
        )
        lines.append(("compared", ", ".join(each.columns) or "the key only"))
        if each.newer:
            lines.append(("newer", f"{each.newer:,} rows came to the client after its snapshot and are not counted"))
    files_ = [
        each.differences.with_suffix(end).name
        for each in directions
        if each.differences is not None
        for end in (".parquet", ".csv")
    ]
    if files_:
        lines.append(("differences", ", ".join(files_)))
    shown = "".join(f"<dt>{_safe(name)}</dt><dd>{_safe(text)}</dd>" for name, text in lines)
    return f'<h2>How it was compared</h2><div class="card"><dl>{shown}</dl></div>'
