"""Settings: the environment overrides the file, which overrides defaults; the error for a mistake names its origin."""

from __future__ import annotations

import enum
import os
import stat
from pathlib import Path

import pytest

from mercury.console.settings import ConsoleSettings
from mercury.errors import ConfigurationError, MercuryError
from mercury.settings import (
    DEFAULT_FILE,
    HttpSettings,
    Setting,
    Settings,
    check_address,
    explain,
    load,
    variable,
)
from mercury.statemachine.policy import AcknowledgeAt, DeliveryAssurance, SourcePolicy
from mercury.statemachine.protocol import RmVersion
from mercury.statemachine.retransmission import RetransmissionPolicy

NOTHING: dict[str, str] = {}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(text: str, name: str = "settings.toml") -> Path:
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


def setting(path: str, settings: list[Setting]) -> Setting:
    (found,) = (each for each in settings if each.path == path)
    return found


# --- what wins -------------------------------------------------------------------------------------------------------


def test_without_file_and_environment_everything_is_at_its_default() -> None:
    assert load(environment=NOTHING) == Settings()
    assert {each.origin for each in explain(environment=NOTHING)} == {"default"}


def test_the_environment_wins_over_the_file_and_the_file_over_the_default() -> None:
    file = written("[source]\nwindow = 8\nexpires = 60\n")
    settings = explain(file, {"MERCURY_SOURCE_WINDOW": "9"})
    found = {path: setting(path, settings) for path in ("source.window", "source.expires", "source.close")}
    assert [(each.value, each.origin) for each in found.values()] == [
        (9, "MERCURY_SOURCE_WINDOW"),
        (60.0, "settings.toml"),
        (True, "default"),
    ]
    loaded = load(file, {"MERCURY_SOURCE_WINDOW": "9"})
    assert (loaded.source.window, loaded.source.expires, loaded.source.close) == (9, 60.0, True)


def test_the_environment_of_the_process_is_read_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERCURY_HTTP_PORT", "8123")
    monkeypatch.delenv("MERCURY_CONFIG", raising=False)
    assert load().http.port == 8123


def test_every_setting_has_a_variable_of_its_own() -> None:
    paths = [each.path for each in explain(environment=NOTHING)]
    assert len(paths) > 40
    assert len({variable(path) for path in paths}) == len(paths)
    assert "MERCURY_CONFIG" not in {variable(path) for path in paths}


def test_every_setting_can_be_set_to_its_default_by_its_variable_and_by_a_file() -> None:
    """Whatever type a field has, what is shown of it can be read again."""
    for each in explain(environment=NOTHING):
        environment = {variable(each.path): each.shown}
        again = setting(each.path, explain(environment=environment))
        assert (again.value, again.origin) == (each.value, variable(each.path))
        file = written(f"{each.path} = {toml(each.value)}\n")
        again = setting(each.path, explain(file, NOTHING))
        assert (again.value, again.origin) == (each.value, "settings.toml")


def toml(value: object) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, enum.Enum):
        return f'"{value.value}"'
    if isinstance(value, tuple):
        return str(list(value))
    return repr(value) if isinstance(value, int | float) else f'"{value}"'


# --- the file --------------------------------------------------------------------------------------------------------


def test_a_file_named_mercury_toml_in_the_folder_is_read() -> None:
    written("store = 'memory:'\n[http]\nport = 1\n", DEFAULT_FILE)
    assert load(environment=NOTHING).http.port == 1


def test_mercury_config_names_another_file() -> None:
    written("[http]\nport = 1\n", DEFAULT_FILE)
    written("[http]\nport = 2\n", "other.toml")
    environment = {"MERCURY_CONFIG": "other.toml"}
    assert load(environment=environment).http.port == 2
    assert setting("http.port", explain(environment=environment)).origin == "other.toml"


def test_a_file_that_is_given_wins_over_mercury_config() -> None:
    assert load(written("[http]\nport = 3\n"), {"MERCURY_CONFIG": "missing.toml"}).http.port == 3


def test_an_empty_mercury_config_names_no_file() -> None:
    written("[http]\nport = 1\n", DEFAULT_FILE)
    assert load(environment={"MERCURY_CONFIG": ""}).http.port == 1


def test_a_file_that_was_named_has_to_be_there() -> None:
    with pytest.raises(ConfigurationError, match=r"missing\.toml cannot be read"):
        load(environment={"MERCURY_CONFIG": "missing.toml"})
    with pytest.raises(ConfigurationError, match=r"missing\.toml cannot be read"):
        load(Path("missing.toml"), NOTHING)


def test_a_folder_is_no_file() -> None:
    Path("folder").mkdir()
    with pytest.raises(ConfigurationError, match="folder cannot be read"):
        load(Path("folder"), NOTHING)


@pytest.mark.skipif(os.geteuid() == 0, reason="to root every file can be read")
def test_a_file_that_may_not_be_read_is_an_error_that_names_it() -> None:
    file = written("")
    file.chmod(stat.S_IWUSR)
    with pytest.raises(ConfigurationError, match=r"settings\.toml cannot be read: Permission denied"):
        load(file, NOTHING)


@pytest.mark.parametrize("text", ["store = ", "[source\n", "a = 1\na = 2\n", "\x00"])
def test_invalid_toml_is_reported_with_its_position(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"settings\.toml is not TOML: .*\(at (line \d|end)"):
        load(written(text), NOTHING)


def test_file_that_is_not_utf_8_is_reported() -> None:
    Path("latin.toml").write_bytes("store = 'ü'".encode("latin-1"))
    with pytest.raises(ConfigurationError, match=r"latin\.toml is not TOML"):
        load(Path("latin.toml"), NOTHING)


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[source]\nwindw = 8\n", "there is no setting 'source.windw' (did you mean 'source.window'?)"),
        ("[sources]\nwindow = 8\n", "there is no setting 'sources.window' (did you mean 'source.window'?)"),
        ("shop = 8\n", "there is no setting 'shop'"),
        ("source = 8\n", "there is no setting 'source'"),
        ("[store]\nurl = 'memory:'\n", "there is no setting 'store.url'"),
        ("[source]\nwindow = 'many'\n", "source.window: 'many' is not a whole number"),
        ("[source]\nwindow = 8.5\n", "source.window: 8.5 is not a whole number"),
        ("[source]\nwindow = true\n", "source.window: True is not a whole number"),
        ("[source]\nclose = 1\n", "source.close: 1 is not true or false"),
        ("[source]\nclose = 'yes'\n", "source.close: 'yes' is not true or false"),
        ("[source]\nexpires = 'soon'\n", "source.expires: 'soon' is not a number"),
        ("[source]\nexpires = true\n", "source.expires: True is not a number"),
        ("[http]\ntimeout = nan\n", "http.timeout: nan is not a number"),
        ("[http]\ntimeout = inf\n", "http.timeout: inf is not a number"),
        ("store = 5\n", "store: 5 is not a text"),
        ("[destination]\nassurance = 'Sometimes'\n", "'Sometimes' is not one of ExactlyOnce, AtLeastOnce, AtMostOnce"),
        ("[engine.addresses]\nallowed = 'http://a'\n", "engine.addresses.allowed: a list of texts is wanted"),
        ("[engine.addresses]\nallowed = [1]\n", "engine.addresses.allowed: a list of texts is wanted"),
    ],
)
def test_a_mistake_in_the_file_names_the_file_the_setting_and_what_is_wanted(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(written(text), NOTHING)
    assert str(caught.value).startswith("settings.toml: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("secret", ["1234567890123456", "1.5", "true", "1979-05-27", "[1234]"])
def test_secret_without_quotes_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(written(f"[console]\ntoken = {secret}\n"), NOTHING)
    assert str(caught.value) == "settings.toml: console.token: this is not a text: write it in quotes"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("MERCURY_SOURCE_WINDOW", "many", "MERCURY_SOURCE_WINDOW: 'many' is not a whole number"),
        ("MERCURY_SOURCE_WINDOW", "", "MERCURY_SOURCE_WINDOW: '' is not a whole number"),
        ("MERCURY_SOURCE_WINDOW", "8.0", "MERCURY_SOURCE_WINDOW: '8.0' is not a whole number"),
        ("MERCURY_HTTP_TIMEOUT", "soon", "MERCURY_HTTP_TIMEOUT: 'soon' is not a number"),
        ("MERCURY_HTTP_TIMEOUT", "nan", "MERCURY_HTTP_TIMEOUT: 'nan' is not a number"),
        ("MERCURY_HTTP_TIMEOUT", "-inf", "MERCURY_HTTP_TIMEOUT: '-inf' is not a number"),
        ("MERCURY_SOURCE_CLOSE", "maybe", "MERCURY_SOURCE_CLOSE: 'maybe' is not one of true, 1, yes, false, 0, no"),
        ("MERCURY_SOURCE_PROTOCOL_RM", "2.0", "MERCURY_SOURCE_PROTOCOL_RM: '2.0' is not one of 1.0, 1.1"),
        ("MERCURY_HTTP_PROT", "8", "there is no setting MERCURY_HTTP_PROT (did you mean 'MERCURY_HTTP_PORT'?)"),
        ("MERCURY_CONFG", "a.toml", "there is no setting MERCURY_CONFG (did you mean 'MERCURY_CONFIG'?)"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_environment_names_the_variable_and_what_is_wanted(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(environment={name: text})
    assert str(caught.value) == message


def test_other_peoples_variables_are_none_of_our_business() -> None:
    assert (
        load(environment={"MERCURY_SHOP_BRANCH": "Berlin", "WINDOW": "8", "mercury_source_window": "8"}) == Settings()
    )


def test_variables_of_a_service_named_like_mercury_are_no_settings() -> None:
    environment = {"MERCURY_PORT": "tcp://10.96.0.17:80", "MERCURY_HTTP_SERVICE_HOST": "10.96.0.17"}
    assert load(environment=environment) == Settings()


def test_a_service_whose_variable_is_that_of_a_setting_is_an_error_that_says_so() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(environment={"MERCURY_HTTP_PORT": "tcp://10.96.0.17:80"})
    assert str(caught.value).startswith("MERCURY_HTTP_PORT: 'tcp://10.96.0.17:80' is the address of a Service")
    assert "enableServiceLinks: false" in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"MERCURY_SOURCE_PROTOCOL_ADDRESSING": "2004/08"}, "source.protocol: these versions cannot be combined"),
        (
            {
                "MERCURY_DESTINATION_INCOMPLETE_BEHAVIOR": "DiscardEntireSequence",
                "MERCURY_DESTINATION_ACKNOWLEDGE_AT": "delivery",
            },
            "DiscardEntireSequence delivers nothing before the end",
        ),
        (
            {"MERCURY_SOURCE_PROTOCOL_RM": "1.0", "MERCURY_SOURCE_MAKE_CONNECTION": "yes"},
            "source.make_connection: it needs WS-RM 1.1 (set by MERCURY_SOURCE_MAKE_CONNECTION)",
        ),
        ({"MERCURY_ENGINE_ADDRESSES_ALLOWED": "http://good.example, ftp://bad.example"}, "ftp://bad.example"),
    ],
)  # fmt: skip
def test_contradicting_values_are_an_error(environment: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        explain(environment=environment)
    assert message in str(caught.value)


FIGURES = {
    "source.window": ("0", "-4"),
    "source.end_attempts": ("0",),
    "source.close_unacknowledged_after": ("0", "-1"),
    "source.expires": ("0",),
    "source.polling.base": ("0",),
    "source.polling.cap": ("0.5",),
    "source.inactivity_timeout": ("-1",),
    "source.idle_timeout": ("-1",),
    "source.tombstone": ("-1",),
    "source.retransmission.base": ("0",),
    "source.retransmission.cap": ("0.5",),
    "source.retransmission.jitter": ("1",),
    "source.retransmission.max_attempts": ("0",),
    "source.retransmission.max_age": ("0",),
    "destination.acknowledgement_interval": ("-0.1",),
    "destination.acknowledge_every": ("0",),
    "destination.inactivity_timeout": ("0",),
    "destination.max_expires": ("0",),
    "destination.tombstone": ("-1",),
    "destination.max_ranges": ("0",),
    "destination.max_backlog": ("0",),
    "destination.max_backlog_bytes": ("0", "-1"),
    "destination.max_attempts": ("0",),
    "destination.max_batch": ("0",),
    "destination.redelivery.factor": ("0.5",),
    "engine.limits.max_bytes": ("0",),
    "engine.limits.max_ranges": ("-1",),
    "engine.max_sequences": ("0",),
    "engine.max_ended": ("0",),
    "engine.max_ended_per_peer": ("0",),
    "engine.remember_ended": ("-1",),
    "engine.max_backlog_bytes": ("0",),
    "engine.max_backlog_bytes_per_peer": ("0",),
    "engine.max_outbound_backlog": ("0",),
    "engine.number_batch": ("0",),
    "engine.lease": ("0",),
    "engine.back_channel_grace": ("-1",),
    "engine.replies_kept": ("0",),
    "engine.integrity_interval": ("0",),
    "runtime.queue": ("0",),
    "runtime.senders": ("0",),
    "runtime.poll": ("0",),
    "http.host": ("", " "),
    "http.port": ("-1", "99999"),
    "http.timeout": ("0", "-1"),
    "http.receive_timeout": ("0",),
    "http.status_token": ("short",),
    "http.first_byte_timeout": ("0",),
    "http.header_timeout": ("0",),
    "http.idle_timeout": ("0",),
    "http.max_request_line": ("10",),
    "http.max_header_bytes": ("0",),
    "http.max_header_fields": ("0", "7"),
    "http.max_connections": ("0",),
    "http.max_connections_per_address": ("0",),
    "http.max_receiving_bytes": ("0",),
    "http.max_sending_bytes": ("0",),
    "http.back_channel_wait": ("-1",),
    "http.response_wait": ("-1",),
    "http.shutdown_deadline": ("-1",),
    "log.level": ("loud",),
    "log.format": ("xml",),
    "xa.resources": ("app", "=sqlite:///x"),
    "engine.addresses.allowed": ("ftp://bad.example", "http://*.example/"),
}


@pytest.mark.parametrize(("path", "text"), [(path, text) for path, texts in FIGURES.items() for text in texts])
def test_an_unusable_value_is_an_error_with_its_setting_and_origin(path: str, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        explain(environment={variable(path): text})
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).endswith(f" (set by {variable(path)})")
    assert text in str(caught.value)


def test_an_unusable_number_is_an_error_that_names_its_file() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(written("[source]\nwindow = 0\n"), NOTHING)
    assert str(caught.value) == "source.window: 0 is not at least 1 (set by settings.toml)"


def test_a_database_that_takes_part_needs_a_name_of_its_own() -> None:
    with pytest.raises(ConfigurationError, match="a name stands there twice"):
        load(environment={"MERCURY_XA_RESOURCES": "a=sqlite:///x, a=sqlite:///y"})


def test_the_least_that_makes_sense_is_taken() -> None:
    environment = {
        "MERCURY_SOURCE_WINDOW": "1",
        "MERCURY_HTTP_PORT": "65535",
        "MERCURY_DESTINATION_ACKNOWLEDGEMENT_INTERVAL": "0",
        "MERCURY_LOG_LEVEL": "debug",
    }
    settings = load(environment=environment)
    assert (settings.source.window, settings.http.port) == (1, 65535)


def test_programs_that_set_nonsense_get_a_configuration_error() -> None:
    for attempt in (lambda: SourcePolicy(window=0), lambda: RetransmissionPolicy(max_attempts=0)):
        with pytest.raises(MercuryError):
            attempt()
        with pytest.raises(ValueError, match="is not at least 1"):
            attempt()


@pytest.mark.parametrize("text", ["1.1", "1.2"])
def test_ws_rm_1_2_is_another_word_for_1_1(text: str) -> None:
    # NS-20
    assert load(environment={"MERCURY_SOURCE_PROTOCOL_RM": text}).source.protocol.rm is RmVersion.RM11
    assert load(written(f"[source.protocol]\nrm = '{text}'\n"), NOTHING).source.protocol.rm is RmVersion.RM11


# --- values ----------------------------------------------------------------------------------------------------------


def test_texts_of_the_environment_become_values() -> None:
    environment = {
        "MERCURY_SOURCE_CLOSE": " No ",
        "MERCURY_SOURCE_OFFER": "1",
        "MERCURY_SOURCE_PROTOCOL_RM": "1.0",
        "MERCURY_SOURCE_WINDOW": " 12 ",
        "MERCURY_SOURCE_IDLE_TIMEOUT": "none",
        "MERCURY_SOURCE_EXPIRES": "1e3",
        "MERCURY_DESTINATION_ASSURANCE": "AtMostOnce",
        "MERCURY_DESTINATION_ACKNOWLEDGE_AT": "delivery",
        "MERCURY_ENGINE_ADDRESSES_ALLOWED": " http://a.example/ ,, http://b.example:* ",
    }
    settings = load(environment=environment)
    source, destination = settings.source, settings.destination
    assert (source.close, source.offer, source.window) == (False, True, 12)
    assert (source.protocol.rm, source.idle_timeout, source.expires) == (RmVersion.RM10, None, 1000.0)
    assert (destination.assurance, destination.acknowledge_at) == (
        DeliveryAssurance.AT_MOST_ONCE,
        AcknowledgeAt.DELIVERY,
    )
    assert settings.engine.addresses.allowed == ("http://a.example/", "http://b.example:*")


def test_optional_elements_can_be_removed() -> None:
    file = written("address = 'http://me.example:8000'\n[source]\nidle_timeout = 'none'\n")
    assert load(file, NOTHING).source.idle_timeout is None
    assert load(file, {"MERCURY_ADDRESS": ""}).address is None
    assert load(file, {"MERCURY_ADDRESS": "None"}).address is None


def test_whole_numbers_are_numbers_too() -> None:
    expires = load(written("[source]\nexpires = 60\n"), NOTHING).source.expires
    assert (expires, type(expires)) == (60.0, float)


@pytest.mark.parametrize("store", ["memory:", "postgresql+psycopg://shop:a%20b@db/shop"])
def test_a_line_break_behind_the_url_of_a_store_is_not_part_of_it(store: str) -> None:
    """As in a URL with a password that is mounted as a secret."""
    for text in (f"{store}\n", f"{store}\r\n", f" {store} "):
        assert load(environment={"MERCURY_STORE": text}).store == store
        assert load(written(f'store = """{text}"""\n'), NOTHING).store == store


# --- tokens ----------------------------------------------------------------------------------------------------------

TOKENS = ("console.token", "console.reader_token", "http.status_token")
TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("path", TOKENS)
def test_a_line_break_behind_a_token_is_not_part_of_it(path: str) -> None:
    """As in a secret that `echo TOKEN | base64` has made."""
    section, _, name = path.partition(".")
    for text in (f"{TOKEN}\n", f"{TOKEN}\r\n", f" {TOKEN} "):
        assert setting(path, explain(environment={variable(path): text})).value == TOKEN
        file = written(f'[{section}]\n{name} = """{text}"""\n')
        assert setting(path, explain(file, NOTHING)).value == TOKEN


@pytest.mark.parametrize("path", TOKENS)
@pytest.mark.parametrize("text", [f"{TOKEN}\n{TOKEN}", f"{TOKEN}\0{TOKEN}", f"{TOKEN}\x1b[2J", f"{TOKEN}\u200f0"])
def test_a_token_with_control_characters_is_refused_and_not_shown(path: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{path}: it has .*set by {variable(path)}") as caught:
        load(environment={variable(path): text})
    assert TOKEN not in str(caught.value)


def test_a_program_that_reads_a_token_with_its_line_break_is_told_so() -> None:
    for attempt in (
        lambda: HttpSettings(status_token=f"{TOKEN}\n"),
        lambda: ConsoleSettings(token=f"{TOKEN}\n"),
        lambda: ConsoleSettings(reader_token=f" {TOKEN}"),
    ):
        with pytest.raises(ConfigurationError, match="token: it has a blank at an end, or a line break") as caught:
            attempt()
        assert TOKEN not in str(caught.value)


# --- the address -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("http://me.example:8000", "http://me.example:8000"),
        ("http://me.example:8000/", "http://me.example:8000"),
        ("https://me.example", "https://me.example"),
        ("http://[::1]:9000", "http://[::1]:9000"),
        ("https://proxy.example/mercury/", "https://proxy.example/mercury"),
    ],
)
def test_an_address_loses_its_last_slash_wherever_it_is_set(address: str, kept: str) -> None:
    """Otherwise peers would post responses to a path with two slashes, which has no endpoint."""
    assert check_address(address) == kept
    assert load(environment={"MERCURY_ADDRESS": address}).address == kept
    assert load(written(f"address = '{address}'\n"), NOTHING).address == kept


@pytest.mark.parametrize(
    "address",
    ["me.example:8000", "ftp://me.example", "http://", "http://:80", "http://[::1", "http://me.example:99999",
     "http://me.example:port", "http://me.example/?a=b", "http://me.example/#a", "http://user:secret@me.example"],
)  # fmt: skip
def test_invalid_address_is_refused_wherever_it_is_set(address: str) -> None:
    for attempt in (lambda: check_address(address), lambda: load(environment={"MERCURY_ADDRESS": address})):
        with pytest.raises(ConfigurationError) as caught:
            attempt()
        assert "is not of the form http://host:port" in str(caught.value)
        assert "secret" not in str(caught.value)


# --- what people see -------------------------------------------------------------------------------------------------


def test_values_are_shown_as_they_are_written_but_without_passwords() -> None:
    assert Setting("a", None, "default").shown == ""
    assert Setting("a", RmVersion.RM10, "default").shown == "1.0"
    assert Setting("a", ("http://x:*", "http://u:secret@y"), "default").shown == "http://x:*, http://u:***@y"
    assert (
        Setting("a", "postgresql://u:secret@y/z?password=secret", "default").shown
        == "postgresql://u:***@y/z?password=***"
    )
    assert Setting("a", 30.0, "default").shown == "30.0"
