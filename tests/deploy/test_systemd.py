"""deploy/systemd/: the unit is one that systemd accepts, and agrees with Mercury's settings."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mercury.settings import HttpSettings, load
from tests.acceptance.processes import PATIENCE, ROOT

UNIT = ROOT / "deploy/systemd/mercury.service"
ENVIRONMENT = ROOT / "deploy/systemd/mercury.env"
ANALYZE = shutil.which("systemd-analyze")


def values(name: str) -> list[str]:
    """What the unit sets for a directive."""
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


def variables() -> dict[str, str]:
    """What the file of the environment sets."""
    lines = [line for line in ENVIRONMENT.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed (Debian: systemd)")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    assert ANALYZE is not None
    unit = tmp_path / UNIT.name
    # The program is where it is installed, so one that exists here stands for it.
    unit.write_text(UNIT.read_text().replace("/opt/mercury/bin/mercury", sys.executable))
    found = subprocess.run(
        [ANALYZE, "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    about_it = [line for line in found.stderr.splitlines() if UNIT.name in line]
    assert (found.returncode, about_it) == (0, []), found.stderr


def test_a_process_ends_by_itself_before_systemd_kills_it() -> None:
    (stop,) = values("TimeoutStopSec")
    assert float(stop) > HttpSettings().shutdown_deadline
    assert values("KillSignal") == ["SIGTERM"]
    # With control-group, the processes of --workers would get a second SIGTERM beside that of their parent.
    assert values("KillMode") == ["mixed"]


def test_a_process_that_ends_is_started_again_within_the_limit_of_starts() -> None:
    assert values("Restart") == ["always"]
    (pause,), (interval,), (burst,) = values("RestartSec"), values("StartLimitIntervalSec"), values("StartLimitBurst")
    assert float(burst) * float(pause) < float(interval), "the limit would never be reached"


def test_the_environment_has_settings_of_mercury() -> None:
    settings = load(environment=variables())
    assert settings.store.startswith("postgresql+psycopg://")
    assert (settings.http.host, settings.http.port) == (HttpSettings().host, HttpSettings().port)
    assert settings.log.format == "json"
    assert values("EnvironmentFile") == ["/etc/mercury/mercury.env"]


def test_the_server_can_write_where_its_store_may_be() -> None:
    assert values("ProtectSystem") == ["strict"]
    (state,), (folder,) = values("StateDirectory"), values("WorkingDirectory")
    assert folder == f"/var/lib/{state}"
