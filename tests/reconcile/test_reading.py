"""The TOML file: its settings are used, and a wrong setting is an error that names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mercury.errors import ConfigurationError
from mercury.reconcile import Config, Kind, make_config, read_file
from mercury.reconcile.reading import _SETTINGS
from mercury.reconcile.source import shown

WHOLE = """
[client]
url = "postgresql+psycopg://me:${PASSWORD}@db1/shop"
table = "shop.orders"
where = "state = 'sent'"
order = "id"
within = ["customer"]
time = "sent_at"
time_zone = "Europe/Berlin"
handed_over = "sent_at"
correlation = "order:{shop}/{id}"

[server]
url = "sqlite:///warehouse.db"
table = "received"
arrival = "seq"
time = "received_at"

[compare]
key = ["shop", "id"]
columns = ["amount", "placed"]

[columns.id]
server = "order_id"
type = "integer"

[columns.amount]
server = "total"
type = "decimal"
scale = 2

[columns.placed]
client_zone = "Europe/Berlin"
trim = true

[stores]
client = "sqlite:///a.sqlite"
server = "memory:"

[response]
table = "confirmations"
key = ["shop", "order_id"]
columns = { total = "confirmed" }

[report]
out = "out"
rows = 50
complete = true

[spark]
master = "spark://cluster:7077"
memory = "2g"
slices = 16
ranges = 4096
"""


def read(tmp_path: Path, text: str) -> Config:
    (tmp_path / "r.toml").write_text(text)
    return make_config(read_file(tmp_path / "r.toml", {"PASSWORD": "secret"}))


def test_everything_that_a_file_says_is_in_the_config(tmp_path: Path) -> None:
    config = read(tmp_path, WHOLE)
    assert config.client.url == "postgresql+psycopg://me:secret@db1/shop"
    assert (config.client.name, config.client.where, config.client.order) == ("shop.orders", "state = 'sent'", "id")
    assert (config.within, config.handed_over) == (("customer",), "sent_at")
    assert (config.client.time, config.client.time_zone) == ("sent_at", "Europe/Berlin")
    assert config.correlation_columns() == ("shop", "id")
    assert (config.server.name, config.server.order, config.server.time) == ("received", "seq", "received_at")
    assert [(pair.client, pair.server, pair.kind) for pair in config.key] == [
        ("shop", "shop", None),
        ("id", "order_id", Kind.INTEGER),
    ]
    amount, placed = config.compare
    assert (amount.server, amount.kind, amount.scale) == ("total", Kind.DECIMAL, 2)
    assert (placed.client_zone, placed.server_zone, placed.trim) == ("Europe/Berlin", "UTC", True)
    assert (config.client_store, config.server_store) == ("sqlite:///a.sqlite", "memory:")
    assert (config.out, config.listed, config.complete) == (Path("out"), 50, True)
    spark = config.spark
    assert (spark.master, spark.memory, spark.slices, spark.ranges) == ("spark://cluster:7077", "2g", 16, 4096)


def test_the_way_back_goes_from_the_servers_table_to_the_responses(tmp_path: Path) -> None:
    config = read(tmp_path, WHOLE)
    back = config.response_config()
    assert back is not None
    assert (back.client.name, back.server.name, back.server.url) == ("received", "confirmations", config.client.url)
    assert [(pair.client, pair.server) for pair in back.key] == [("shop", "shop"), ("order_id", "order_id")]
    assert [(pair.client, pair.server) for pair in back.compare] == [("total", "confirmed")]
    assert back.correlation == "order:{shop}/{order_id}"
    assert (back.client.order, back.within, back.handed_over, back.response) == (None, (), None, None)


def test_secrets_are_not_in_what_python_shows(tmp_path: Path) -> None:
    assert "secret" not in repr(read(tmp_path, WHOLE))


@pytest.mark.parametrize(
    ("found", "replaced", "told"),
    [
        ("[server]", "[sever]", "r.toml has no 'sever' (did you mean 'server'?)"),
        ("arrival =", "arival =", "r.toml: server has no 'arival' (did you mean 'arrival'?)"),
        ('table = "received"', "", "server.table is missing"),
        ('type = "decimal"', 'type = "money"', "columns.amount.type: 'money' is not one of integer, decimal"),
        ("scale = 2", 'scale = "2"', "columns.amount.scale is not a number"),
        ("rows = 50", "rows = true", "report.rows is not a number"),
        ('"customer"', "7", "client.within is not a list of names"),
        ("[columns.amount]", "[columns.amont]", "columns.amont is neither in compare.key nor in compare.columns"),
        ('columns = ["amount", "placed"]', 'columns = ["placed"]', "columns.amount is neither"),
        ('key = ["shop", "id"]', "key = []", "columns.id is neither"),
        ("Europe/Berlin", "Europe/Bielefeld", "there is no time zone 'Europe/Bielefeld'"),
        ("${PASSWORD}", "${NOTHING}", "client.url: the environment has no NOTHING"),
        ("order:{shop}/{id}", "order:{", "is not a template"),
        ("order:{shop}/{id}", "order", "it names columns in braces"),
        ("order:{shop}/{id}", "order:{0}", "it names columns in braces"),
        ('arrival = "seq"', "", "order needs a column on both sides"),
        ('key = ["shop", "order_id"]', 'key = ["order_id"]', "the response's key has 1 columns, not 2"),
        ("slices = 16", "slices = 0", "spark.slices is 0: it must be between 1 and 1024"),
        ("[report]", "[report", "is not TOML"),
        ("\n[client]", "spark = 3\n[client]", "r.toml is not TOML"),
    ],
)
def test_error_names_what_is_wrong(tmp_path: Path, found: str, replaced: str, told: str) -> None:
    assert found in WHOLE
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, WHOLE.replace(found, replaced))
    assert told in str(caught.value)


def test_the_example_of_the_documentation_can_be_read(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/reconcile.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "r.toml").write_text(example)
    config = make_config(read_file(tmp_path / "r.toml", {"SHOP_PASSWORD": "x"}))
    assert (config.client.name, config.server.order) == ("sales.orders", "arrival")
    # Every setting that there is has a row in the table, `columns` apart.
    for section, names in _SETTINGS.items():
        for name in names:
            assert re.search(rf"`(?:{section})?\.{name}`", page), f"{section}.{name}"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nothing\.toml cannot be read"):
        read_file(tmp_path / "nothing.toml")


def test_a_key_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no key"):
        make_config({"client": {"url": "sqlite:///a", "table": "t"}, "server": {"url": "sqlite:///a", "table": "t"}})


@pytest.mark.parametrize("url", ["postgresql://me:s3cret@db:54e2/shop", "postgresql//me:s3cret@db/shop"])
def test_mistyped_url_of_a_database_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationError, match="URL cannot be read") as caught:
        shown(url)
    assert "s3cret" not in str(caught.value)
