"""Imports follow the direction of docs/architecture.md, and the checker finds a violation."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from mercury.storage.opening import open_sql_store

from .imports import ALLOWED, BARE, bare_imports, breaches, circles, python_files, shadowing_packages

ROOT = Path(__file__).resolve().parents[2]


def plant(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


# --- this tree -------------------------------------------------------------------------------------------------------


def test_every_import_follows_the_direction_of_the_house() -> None:
    assert breaches(ROOT) == []


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circles(ROOT) == []


def test_there_is_something_to_check() -> None:
    assert len(python_files(ROOT, "mercury")) > 80


def test_every_part_is_known_to_the_rules() -> None:
    parts = {f"mercury.{path.stem}" for path in (ROOT / "mercury").iterdir() if path.suffix == ".py" or path.is_dir()}
    parts -= {"mercury.__init__", "mercury.__pycache__"}
    assert parts - set(ALLOWED) == set()


def test_nothing_imports_the_bare_names() -> None:
    assert bare_imports(ROOT, "mercury", "tests", "samples", "benchmarks") == []


def test_no_package_of_the_tests_takes_the_name_of_a_part() -> None:
    assert shadowing_packages(ROOT, "tests") == []


def test_sending_does_not_import_the_server() -> None:
    """Not only by the imports of Mercury's own files."""
    heavy = ("fastapi", "starlette", "uvicorn", "pydantic", "typer", "rich", "sqlalchemy", "pyspark")
    program = f"import sys, mercury; mercury.Mercury; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


SERVES = """
import sys
from mercury import Mercury, Service

service = Service("letters")

@service.operation("Put")
def put(letter: bytes) -> None: ...

mercury = Mercury(sys.argv[1])
mercury.listen(service)
print([name for name in sys.argv[2:] if name in sys.modules])
mercury.stop()
"""


def test_a_server_does_not_import_what_only_some_applications_use(tmp_path: Path) -> None:
    """Each takes megabytes of a process that lives for weeks."""
    store = f"sqlite:///{tmp_path}/store.db"
    open_sql_store(store).close()  # Alembic is needed to make its tables
    unused = ["alembic", "sqlalchemy.orm", "mercury.storage.memory", "zeep", "signxml", "jinja2", "typer", "rich"]
    command = [sys.executable, "-c", SERVES, store, *unused, "uvicorn"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['uvicorn']", "the HTTP server is used, which shows that the list is of this process"


def test_a_command_that_only_helps_does_not_load_the_engine() -> None:
    program = "import sys, mercury.cli.main; print([name for name in sys.modules if name.startswith('mercury.')])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name.split(".")[1] for name in ast.literal_eval(done.stdout)}
    assert loaded <= {"cli", "errors", "statemachine", "texts"}


def test_testing_package_needs_no_pytest() -> None:
    program = "import sys; from mercury.testing import Pair, SimulatedStore; print('pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- planted breaches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        ("mercury/statemachine/a.py", "import mercury.storage.api\n", "1: mercury.statemachine may not import"),
        ("mercury/statemachine/a.py", "\n\nimport typer\n", "3: mercury.statemachine imports only the standard"),
        ("mercury/statemachine/a.py", "from lxml import etree\n", "1: mercury.statemachine imports only the standard"),
        ("mercury/storage/sql/a.py", "from mercury.wire import ns\n", "1: mercury.storage may not import mercury.wire"),
        ("mercury/wire/a.py", "from mercury.storage.records import X\n", "1: mercury.wire may not import"),
        ("mercury/wire/a.py", "from mercury import storage\n", "1: mercury.wire may not import mercury.storage"),
        ("mercury/wire/a.py", "from .. import engine\n", "1: mercury.wire may not import mercury.engine"),
        ("mercury/wire/a.py", "from ..engine.core import Engine\n", "1: mercury.wire may not import mercury.engine"),
        ("mercury/engine/a.py", "import mercury.client.sender\n", "1: mercury.engine may not import mercury.client"),
        ("mercury/engine/a.py", "import mercury.settings\n", "1: mercury.engine may not import mercury.settings"),
        ("mercury/engine/a.py", "import mercury\n", "1: mercury.engine may not import mercury "),
        ("mercury/engine/a.py", "from mercury import Mercury\n", "1: mercury.engine may not import mercury.Mercury"),
        ("mercury/client/a.py", "from mercury.service import host\n", "1: mercury.client may not import"),
        ("mercury/client/a.py", "import mercury.facade\n", "1: mercury.client may not import mercury.facade"),
        ("mercury/service/a.py", "import mercury.client.sender\n", "1: mercury.service may not import mercury.client"),
        ("mercury/simulation/a.py", "import mercury.cli.main\n", "1: mercury.simulation may not import mercury.cli"),
        ("mercury/reconcile/a.py", "import mercury.engine.runtime.core\n", "1: mercury.reconcile may not import"),
        ("mercury/reconcile/a.py", "import pyspark\n", "1: pyspark is imported in mercury/reconcile/* (in a function"),
        ("mercury/settings.py", "import mercury.client.sender\n", "1: mercury.settings may not import mercury.client"),
        ("mercury/errors.py", "import mercury.statemachine.rms\n", "1: mercury.errors may not import"),
        ("mercury/new/a.py", "import mercury.errors\n", "1: mercury.new.a is no part that the rules know"),
        ("mercury/engine/a.py", "import lxml.etree\n", "1: lxml is imported in mercury/wire/*, mercury/wsdl/*, "),
        ("mercury/engine/a.py", "from sqlalchemy import select\n", "1: sqlalchemy is imported in mercury/storage/*"),
        ("mercury/engine/a.py", "from fastapi import FastAPI\n", "1: fastapi is imported in mercury/service/*"),
        ("mercury/engine/a.py", "import http.client\n", "1: http is imported in mercury/engine/runtime/transport.py"),
        ("mercury/storage/sql/a.py", "import socket\n", "1: socket is imported in mercury/service/*, mercury/cli/*"),
        (
            *("mercury/client/a.py", "from mercury.engine.runtime.transport import HttpTransport\n"),
            "1: mercury.engine.runtime.transport is imported by mercury.engine.runtime.posting, mercury.engine.runtime",
        ),
        ("mercury/postgres/a.py", "from mercury.storage.api import X\n", "1: mercury.postgres may not import"),
        ("mercury/testing/a.py", "import mercury.cli.main\n", "1: mercury.testing may not import mercury.cli"),
        ("mercury/testing/a.py", "def late():\n    import pytest\n", "2: pytest is imported in mercury/testing/contr"),
        ("mercury/cli/pg.py", "from mercury.testing import X\n", "1: mercury.testing is imported by tests only"),
        ("mercury/facade.py", "from mercury import testing\n", "1: mercury.testing is imported by tests only"),
        (
            *("mercury/engine/source/a.py", "from mercury.engine.destination.batch import Batch\n"),
            "1: mercury.engine.source.a may not import mercury.engine.destination.batch (source <- destination",
        ),
        (
            *("mercury/engine/delivery/a.py", "from mercury.engine.destination import worker\n"),
            "1: mercury.engine.delivery.a may not import mercury.engine.destination (source",
        ),
        (
            *("mercury/engine/context.py", "from mercury.engine.runtime.core import Engine\n"),
            "1: mercury.engine.context may not import mercury.engine.runtime.core (source",
        ),
        ("mercury/cli/send.py", "import uvicorn\n", "1: uvicorn is imported in mercury/service/*"),
        ("mercury/cli/serve.py", "import starlette.applications\n", "1: starlette is imported in"),
        ("mercury/hosting.py", "from fastapi import FastAPI\n", "1: fastapi is imported in"),
        ("mercury/hosting.py", "from mercury.service.host import app\n", "1: mercury.hosting imports"),
        (
            "mercury/wire/a.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mercury.engine.runtime.core import Engine\n",
            "3: mercury.wire may not import mercury.engine.runtime.core",
        ),
        (
            "mercury/wire/a.py",
            "def late():\n    from mercury.engine.runtime.core import Engine\n",
            "2: mercury.wire may not import mercury.engine.runtime.core",
        ),
        (
            "mercury/wire/a.py",
            "import importlib\nengine = importlib.import_module('mercury.engine.runtime.core')\n",
            "2: mercury.wire may not import mercury.engine.runtime.core",
        ),
        (
            "mercury/facade.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    pass\nelse:\n    import fastapi\n",
            "5: fastapi is imported in",
        ),
    ],
)  # fmt: skip
def test_a_breach_is_found_with_its_file_and_line(tmp_path: Path, path: str, text: str, rule: str) -> None:
    plant(tmp_path, path, text)
    (found,) = breaches(tmp_path)
    assert found.startswith(f"{path}:{rule}")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "mercury/statemachine/a.py",
            "import enum\nfrom mercury.errors import X\nfrom mercury.statemachine import rms\n",
        ),
        ("mercury/storage/a.py", "import sqlalchemy.orm\nfrom mercury.statemachine.ranges import RangeSet\n"),
        ("mercury/wire/a.py", "from lxml import etree\nfrom . import ns\nfrom .ns import X\n"),
        ("mercury/client/zeep_transport.py", "import lxml\nimport zeep\nimport mercury.engine.runtime.core\n"),
        ("mercury/service/a.py", "import fastapi, starlette, uvicorn\n"),
        ("mercury/reconcile/a.py", "import mercury.storage.api\nimport sqlalchemy\n\ndef run():\n    import pyspark\n"),
        ("mercury/cli/serve.py", "def late():\n    from starlette.applications import Starlette\n"),
        ("mercury/hosting.py", "import mercury.settings\n\ndef app():\n    from mercury.service.host import app\n"),
        ("mercury/engine/runtime/threads.py", "from mercury.engine.runtime.transport import Transport\n"),
        ("mercury/engine/runtime/transport.py", "import http.client\n"),
        ("mercury/__init__.py", "from mercury import facade\n"),
        ("mercury/testing/a.py", "import mercury.facade\nfrom mercury.postgres.embedded import X\n"),
        ("mercury/testing/contract/a.py", "import pytest\nfrom mercury.testing.clock import X\n"),
        ("mercury/engine/a.py", "text = 'import mercury.cli'\n# from mercury.cli import main\n"),
    ],
)
def test_allowed_imports_are_not_reported(tmp_path: Path, path: str, text: str) -> None:
    plant(tmp_path, path, text)
    assert breaches(tmp_path) == []


@pytest.mark.parametrize(
    "back",
    [
        "import mercury.storage.a\n",
        "from mercury.storage.a import X\n",
        "from mercury.storage import a\n",
        "from . import a\n",
        "from .a import X\n",
        "def late():\n    from mercury.storage.a import X\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mercury.storage.a import X\n",
        "import importlib\na = importlib.import_module('mercury.storage.a')\n",
    ],
)
def test_a_circle_of_files_is_found_and_printed(tmp_path: Path, back: str) -> None:
    plant(tmp_path, "mercury/storage/a.py", "from mercury.storage.sql.b import X\n")
    plant(tmp_path, "mercury/storage/sql/b.py", "from mercury.storage.c import X\n")
    plant(tmp_path, "mercury/storage/c.py", back)
    plant(tmp_path, "mercury/storage/d.py", "from mercury.storage.a import X\n")
    assert circles(tmp_path) == ["mercury.storage.a -> mercury.storage.sql.b -> mercury.storage.c -> mercury.storage.a"]


def test_every_circle_of_files_is_found_once(tmp_path: Path) -> None:
    for one, other in (("a", "b"), ("b", "c"), ("c", "a"), ("b", "a"), ("d", "e"), ("e", "d"), ("d", "a")):
        file = tmp_path / f"mercury/{one}.py"
        before = file.read_text() if file.exists() else ""
        plant(tmp_path, f"mercury/{one}.py", before + f"import mercury.{other}\n")
    assert circles(tmp_path) == ["mercury.a -> mercury.b -> mercury.a", "mercury.d -> mercury.e -> mercury.d"]


def test_a_package_that_imports_its_files_is_no_circle(tmp_path: Path) -> None:
    plant(tmp_path, "mercury/storage/__init__.py", "from mercury.storage.a import X\n")
    plant(tmp_path, "mercury/storage/a.py", "from mercury.storage import b\n")
    plant(tmp_path, "mercury/storage/b.py", "import mercury.errors\n")
    assert circles(tmp_path) == []


@pytest.mark.parametrize("name", BARE)
@pytest.mark.parametrize("statement", ["import {}", "from {}.api import X", "import {}.api as api", "__import__('{}')"])
@pytest.mark.parametrize("folder", ["mercury/engine", "tests/unit", "samples/hello", "benchmarks"])
def test_a_bare_name_is_found(tmp_path: Path, folder: str, statement: str, name: str) -> None:
    plant(tmp_path, f"{folder}/a.py", f"\n{statement.format(name)}\n")
    (found,) = bare_imports(tmp_path, "mercury", "tests", "samples", "benchmarks")
    assert found.startswith(f"{folder}/a.py:2: import mercury.{name}")


def test_a_name_that_only_contains_a_bare_one_is_not_found(tmp_path: Path) -> None:
    plant(
        tmp_path, "tests/a.py", "import mercury.storage\nfrom .storage import x\nimport storage3\nimport my.service\n"
    )
    assert bare_imports(tmp_path, "tests") == []


def test_a_package_that_takes_the_name_of_a_part_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "tests/unit/storage/__init__.py", "")
    (found,) = shadowing_packages(tmp_path, "tests")
    assert found.startswith("tests/unit/storage: this package is imported as 'storage'")
    plant(tmp_path, "tests/unit/__init__.py", "")
    assert shadowing_packages(tmp_path, "tests") == []
