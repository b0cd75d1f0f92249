"""The files of a TLS context are looked at now and then, and read only when they have changed."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from mercury import ConfigurationError
from mercury.engine.runtime.certificate_files import LOOK_INTERVAL, FileContext


class Reading:
    """Makes contexts, or refuses to, and counts."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reads = 0
        self.broken = False

    def __call__(self) -> ssl.SSLContext:
        self.reads += 1
        if self.broken:
            raise ConfigurationError("the file cannot be used")
        return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def after_two_looks(followed: FileContext, reading: Reading) -> ssl.SSLContext:
    """The context after the two looks that a changed file needs."""
    for _ in range(2):
        reading.now += LOOK_INTERVAL
        followed.current()
    return followed.current()


def test_files_are_looked_at_once_in_an_interval_and_read_when_they_changed(tmp_path: Path) -> None:
    reading, file = Reading(), tmp_path / "a.pem"
    file.write_text("1")
    followed = FileContext("x", (str(file), None), reading, clock=lambda: reading.now)
    assert reading.reads == 0
    first = followed.current()
    reading.now += LOOK_INTERVAL
    assert followed.current() is first
    file.write_text("22")
    reading.now += LOOK_INTERVAL / 2
    assert followed.current() is first, "it was looked at a moment ago"
    reading.now += LOOK_INTERVAL / 2
    assert followed.current() is first, "it may be in the middle of being written"
    reading.now += LOOK_INTERVAL
    assert followed.current() is not first
    assert reading.reads == 2


def test_file_that_is_replaced_by_one_of_the_same_size_and_time_is_read(tmp_path: Path) -> None:
    reading, file, fresh = Reading(), tmp_path / "a.pem", tmp_path / "b.pem"
    file.write_text("1")
    fresh.write_text("2")
    os.utime(file, ns=(0, 0))
    os.utime(fresh, ns=(0, 0))
    link = tmp_path / "link.pem"
    link.symlink_to(file)
    followed = FileContext("x", (str(link),), reading, clock=lambda: reading.now)
    first = followed.current()
    link.unlink()
    link.symlink_to(fresh)
    assert after_two_looks(followed, reading) is not first


def test_unusable_files_are_read_once_and_again_when_they_change(tmp_path: Path) -> None:
    reading, file = Reading(), tmp_path / "a.pem"
    file.write_text("1")
    followed = FileContext("x", (str(file),), reading, clock=lambda: reading.now)
    first = followed.current()
    reading.broken = True
    file.unlink()
    for _ in range(3):
        reading.now += LOOK_INTERVAL
        assert followed.current() is first
    assert reading.reads == 2
    reading.broken = False
    file.write_text("333")
    assert after_two_looks(followed, reading) is not first


def test_file_that_is_rewritten_piece_by_piece_is_read_when_it_stays_the_same(tmp_path: Path) -> None:
    reading, file = Reading(), tmp_path / "a.pem"
    file.write_text("1")
    followed = FileContext("x", (str(file),), reading, clock=lambda: reading.now)
    first = followed.current()
    for length in range(2, 6):
        file.write_text("1" * length)
        reading.now += LOOK_INTERVAL
        assert followed.current() is first
    assert reading.reads == 1
    reading.now += LOOK_INTERVAL
    assert followed.current() is not first
    assert reading.reads == 2


def test_file_that_gets_its_previous_content_back_is_not_read(tmp_path: Path) -> None:
    reading, file, other = Reading(), tmp_path / "a.pem", tmp_path / "b.pem"
    file.write_text("1")
    followed = FileContext("x", (str(file),), reading, clock=lambda: reading.now)
    first = followed.current()
    file.rename(other)
    reading.now += LOOK_INTERVAL
    assert followed.current() is first
    other.rename(file)
    assert after_two_looks(followed, reading) is first
    assert reading.reads == 1


def test_unusable_file_is_refused_at_first(tmp_path: Path) -> None:
    reading = Reading()
    reading.broken = True
    with pytest.raises(ConfigurationError):
        FileContext("x", (str(tmp_path / "none"),), reading).current()


def test_context_without_files_is_made_once() -> None:
    reading = Reading()
    followed = FileContext("x", (None, None), reading, clock=lambda: reading.now)
    first = followed.current()
    reading.now += 1000 * LOOK_INTERVAL
    assert followed.current() is first
