"""Checks the direction of imports. Each import of each file is read, also in functions and for type checkers."""

from __future__ import annotations

import ast
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from types import MappingProxyType

#: statemachine <- (storage, wire <- (wsdl, security)) <- engine <- (client, service, simulation) <- (cli, testing);
#: `errors` is for all.
#: A part may import itself and what stands here, by longest prefix.
ALLOWED = MappingProxyType(
    {
        # For its type hints only: the fault that an error carries.
        "mercury.errors": ("mercury.statemachine.faults",),
        # A dictionary of the entries that were set last.
        "mercury.bounded": (),
        # Reads a value of which only some are possible.
        "mercury.choices": ("mercury.errors",),
        # Masks the passwords of URLs: where URLs of databases are shown.
        "mercury.masking": (),
        # Texts for people: of the command line, the operations and the console, and of lines of the log.
        "mercury.texts": (),
        "mercury.statemachine": ("mercury.errors",),
        "mercury.storage": ("mercury.errors", "mercury.bounded", "mercury.masking", "mercury.statemachine"),
        "mercury.wire": ("mercury.errors", "mercury.statemachine"),
        # Documents about a service, for both sides.
        "mercury.wsdl": ("mercury.errors", "mercury.statemachine", "mercury.wire"),
        # WS-Security on the bytes of messages: no store, no clock.
        "mercury.security": ("mercury.errors", "mercury.statemachine", "mercury.wire"),
        "mercury.engine": (
            *("mercury.errors", "mercury.statemachine", "mercury.storage", "mercury.wire", "mercury.security"),
            *("mercury.bounded", "mercury.choices", "mercury.texts"),
        ),
        "mercury.client": (
            *("mercury.errors", "mercury.statemachine", "mercury.storage", "mercury.wire", "mercury.engine"),
            *("mercury.wsdl", "mercury.security.settings"),
        ),
        "mercury.service": (
            *("mercury.errors", "mercury.statemachine", "mercury.storage", "mercury.wire", "mercury.engine"),
            *("mercury.wsdl", "mercury.security.settings", "mercury.bounded"),
            # What a sequence looks like to people: shown on both sides. It would be better off in the engine.
            "mercury.engine.status",
            # The limits of the listener: a server that the user runs reads them itself.
            "mercury.settings",
        ),
        # Metrics and traces, with their exporters: it reads the store and is told by the engine.
        "mercury.telemetry": (
            *("mercury.errors", "mercury.bounded", "mercury.statemachine", "mercury.storage", "mercury.engine"),
        ),
        "mercury.simulation": (
            *("mercury.errors", "mercury.statemachine", "mercury.storage", "mercury.wire", "mercury.engine"),
        ),
        # For operators: the command line, the console and the facade call it.
        "mercury.operations": (
            *(
                "mercury.errors",
                "mercury.choices",
                "mercury.texts",
                "mercury.statemachine",
                "mercury.storage",
                "mercury.wire",
                "mercury.engine",
            ),
            "mercury.client",
        ),
        # The HTML reports of the reconciler and of the trial.
        "mercury.reports": ("mercury.errors",),
        "mercury.reconcile": (
            *("mercury.errors", "mercury.choices", "mercury.masking", "mercury.storage", "mercury.reports"),
        ),
        # PostgreSQL as a program: started, stopped, given databases. It knows nothing of what is stored there.
        "mercury.postgres": ("mercury.errors", "mercury.masking"),
        # The fail-over testing tool: it knows programs, bytes and tables. Its own client and server are applications.
        "mercury.trial": (
            *("mercury.errors", "mercury.choices", "mercury.masking", "mercury.storage", "mercury.postgres"),
            "mercury.reports",
        ),
        "mercury.trial.programs": ("mercury",),
        "mercury.settings": (
            *("mercury.errors", "mercury.masking", "mercury.statemachine", "mercury.engine"),
            "mercury.console.settings",
        ),
        # One description for both sides: it knows the client's side and the server's.
        "mercury.contract": (
            *("mercury.errors", "mercury.storage", "mercury.wire", "mercury.engine", "mercury.client"),
            *("mercury.service.definition", "mercury.service.signature"),
        ),
        # The half of the facade that sends.
        "mercury.outgoing": (
            *("mercury.errors", "mercury.statemachine", "mercury.storage", "mercury.engine", "mercury.client"),
            *("mercury.service.paths", "mercury.service.definition", "mercury.settings", "mercury.contract"),
            "mercury.security.settings",
        ),
        # The web console, on the operator's layer; of the service it has the requests of HTTP, and of the wire the
        # canonical form of payloads.
        "mercury.console": (
            *("mercury.errors", "mercury.bounded", "mercury.choices", "mercury.texts", "mercury.statemachine"),
            *("mercury.storage", "mercury.engine", "mercury.operations", "mercury.client", "mercury.service"),
            *("mercury.reconcile", "mercury.wire.payload"),
        ),
        "mercury.console.settings": ("mercury.errors", "mercury.statemachine"),
        # The half of the facade that hosts.
        "mercury.hosting": (
            *("mercury.errors", "mercury.engine", "mercury.client.overview", "mercury.service", "mercury.settings"),
            *("mercury.storage", "mercury.console", "mercury.staging"),
            "mercury.telemetry",
        ),
        # The stage of a process, and the part of the facade that looks at its store.
        "mercury.staging": (
            *("mercury.errors", "mercury.engine", "mercury.service", "mercury.settings", "mercury.storage"),
            "mercury.statemachine",
        ),
        "mercury.store_access": (
            *("mercury.errors", "mercury.engine", "mercury.client", "mercury.storage", "mercury.statemachine"),
        ),
        # A service that sends on what it receives.
        "mercury.relaying": ("mercury",),
        # The top: puts the parts together.
        "mercury.facade": ("mercury",),
        "mercury.cli": ("mercury",),
        "mercury.__main__": ("mercury.cli.entry",),
        "mercury": ("mercury",),
        # For tests of what is built on Mercury, and of Mercury: beside the command line, which it does not know.
        "mercury.testing": (
            *("mercury.errors", "mercury.statemachine", "mercury.storage", "mercury.wire", "mercury.engine"),
            *("mercury.client", "mercury.service", "mercury.simulation", "mercury.postgres"),
            *("mercury.settings", "mercury.facade"),
        ),
    }
)

#: Where databases are spoken to.
DATABASES = ("mercury/storage/*", "mercury/postgres/*", "mercury/reconcile/*")
#: The trial's tables, and the applications that it runs.
TRIAL_DATABASES = ("mercury/trial/tables.py", "mercury/trial/programs/*")

#: The rooms of `mercury.engine`, each with the rooms that it may import. All may import the files beside the rooms;
#: those import no room.
ROOMS = MappingProxyType(
    {
        "source": (),
        "destination": ("source",),
        "delivery": ("source",),
        "stage": (),
        "runtime": ("source", "destination", "delivery", "stage"),
    }
)

#: A distribution, or another import name, that only some files may know; ``lazily`` = in a function or for type hints.
ONLY_IN = MappingProxyType(
    {
        "lxml": (("mercury/wire/*", "mercury/wsdl/*", "mercury/security/*", "mercury/client/zeep*"), ()),
        "zeep": (("mercury/client/zeep*",), ("mercury/wsdl/zeep_types.py",)),
        "dns": (("mercury/engine/runtime/srv_records.py",), ()),
        "zeroconf": (("mercury/engine/runtime/zeroconf_agent.py",), ()),
        # The extra `security`: loaded when a setting names a certificate.
        "signxml": (("mercury/security/signature.py",), ()),
        "cryptography": (("mercury/security/*",), ()),
        "sqlalchemy": ((*DATABASES, *TRIAL_DATABASES, "mercury/testing/postgres.py"), ()),
        "psycopg": (DATABASES, ()),
        # Mercury runs, and `mercury.testing` is imported, where no pytest is installed.
        "pytest": (("mercury/testing/contract/*",), ()),
        # The extra `metrics`: loaded where it is used.
        "prometheus_client": (("mercury/telemetry/prometheus.py",), ()),
        "opentelemetry": (("mercury/telemetry/tracing.py",), ("mercury/telemetry/otel.py",)),
        "pyspark": ((), ("mercury/reconcile/*",)),
        "jinja2": (("mercury/reports/page.py", "mercury/reconcile/report.py", "mercury/console/rendering.py"), ()),
        "fastapi": (("mercury/service/*", "mercury/console/*", "mercury/trial/programs/*"), ("mercury/hosting.py",)),
        "starlette": (("mercury/service/*", "mercury/console/*"), ("mercury/cli/serve.py",)),
        "uvicorn": (("mercury/service/*",), ()),
        # The network: where no transaction is open.
        "http": (
            (
                "mercury/engine/runtime/transport.py",
                "mercury/engine/runtime/exchange_loop.py",
                "mercury/engine/runtime/http_connection.py",
                "mercury/engine/runtime/http_reply.py",
                "mercury/cli/*",
            ),
            (),
        ),
        "socket": (
            (
                "mercury/service/*",
                "mercury/cli/*",
                "mercury/postgres/*",
                "mercury/trial/*",
                "mercury/engine/runtime/exchange_loop.py",
                "mercury/engine/runtime/http_connection.py",
                "mercury/engine/runtime/kept_connections.py",
                "mercury/engine/runtime/multicast_agent.py",
                "mercury/engine/runtime/resolver.py",
            ),
            (),
        ),
    }
)

#: Parts that post: only who holds no transaction meanwhile may know them.
POSTING = MappingProxyType(
    {
        "mercury.engine.runtime.transport": (
            "mercury.engine.runtime.posting",
            "mercury.engine.runtime.threads",
            "mercury.facade",
            "mercury.cli",
        ),
        "mercury.engine.runtime.exchange_loop": ("mercury.engine.runtime.transport",),
    }
)

#: Imported by tests and by nothing that runs.
FOR_TESTS = "mercury.testing"

#: Modules that load FastAPI: the facade imports them when something is served, not when something is sent.
LOADED_LATE = (
    *("mercury.service.host", "mercury.service.serving", "mercury.console.opening"),
    *("mercury.cli", "mercury.simulation"),
)

#: The class `Mercury`, in its parts.
FACADE = ("mercury.facade", "mercury.hosting", "mercury.outgoing")

#: Import names that would load a second copy of a part.
BARE = ("service", "statemachine", "storage")
#: Every import of such a name matches, and some other text.
_BARE_NAME = re.compile(rf"(?<![\w.])(?:{'|'.join(BARE)})\b")


@dataclass(frozen=True)
class Import:
    """One imported module, as a whole name."""

    file: Path
    line: int
    module: str
    #: Not run when the file is imported: in a function, or for type checkers only.
    lazy: bool


def imports(root: Path, file: Path) -> Iterator[Import]:
    """Every import of a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    package = _package(root, file)
    waiting: deque[tuple[ast.AST, bool]] = deque([(tree, False)])
    while waiting:
        node, lazy = waiting.popleft()
        late = {id(each) for each in _deferred(node)}
        waiting.extend((each, lazy or id(each) in late) for each in ast.iter_child_nodes(node))
        for module in _modules(node, package):
            yield Import(file.relative_to(root), getattr(node, "lineno", 0), module, lazy)


def _package(root: Path, file: Path) -> list[str]:
    parts = list(file.relative_to(root).with_suffix("").parts)
    return parts[:-1]


def _deferred(node: ast.AST) -> list[ast.stmt]:
    """What of a statement does not run when its file is imported."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.body
        case ast.If() if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            return node.body
        case _:
            return []


def _modules(node: ast.AST, package: list[str]) -> Iterator[str]:
    """The modules that one statement imports, or a call with the module's name as text."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            base = package[: len(package) - level + 1] if level else []
            whole = ".".join([*base, *([module] if module else [])])
            # `from mercury import storage` imports mercury.storage: the name may be a module.
            yield from (f"{whole}.{alias.name}" for alias in names) if whole in ("", "mercury") else (whole,)
        case ast.Call(
            func=ast.Name(id=called) | ast.Attribute(attr=called), args=[ast.Constant(value=str(name)), *_]
        ) if called in ("import_module", "__import__", "importorskip"):
            yield name
        case _:
            pass


def python_files(root: Path, *folders: str) -> list[Path]:
    """The Python files below these folders, links not followed."""
    found = (path for folder in folders for path in sorted((root / folder).rglob("*.py")))
    return [path for path in found if "__pycache__" not in path.parts]


def module_name(root: Path, file: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# --- the rules -------------------------------------------------------------------------------------------------------


def breaches(root: Path) -> list[str]:
    """Every import below ``root/mercury`` that breaks a rule: file, line and rule."""
    found = []
    for file in python_files(root, "mercury"):
        module = module_name(root, file)
        for each in imports(root, file):
            found += [f"{each.file}:{each.line}: {rule}" for rule in _broken(module, each)]
    return found


def _broken(module: str, each: Import) -> Iterable[str]:
    part = _part(module, ALLOWED)
    if each.module == "mercury" or each.module.startswith("mercury."):
        if part is None:
            yield f"{module} is no part that the rules know; say in {__name__} what it may import"
        elif not _within(each.module, (part if part != "mercury" else module, *ALLOWED[part])):
            yield f"{part} may not import {each.module} (statemachine <- storage, wire <- engine <- the rest)"
        if _within(each.module, (FOR_TESTS,)) and not _within(module, (FOR_TESTS,)):
            yield f"{FOR_TESTS} is imported by tests only: what runs does not depend on it"
        if module.startswith("mercury.engine.") and not _may_enter(_room(module), _room(each.module)):
            yield f"{module} may not import {each.module} (source <- destination, delivery <- runtime)"
        for posting, users in POSTING.items():
            if _within(each.module, (posting,)) and not _within(module, users):
                yield f"{posting} is imported by {', '.join(users)} only: the network is not used in transactions"
        if module in FACADE and not each.lazy and _within(each.module, LOADED_LATE):
            yield f"{module} imports {each.module} in a function: who only sends does not load it"
        return
    name = each.module.partition(".")[0]
    if part == "mercury.statemachine" and name not in sys.stdlib_module_names:
        yield f"mercury.statemachine imports only the standard library, mercury.errors and itself, not {name}"
    elif name in ONLY_IN:
        freely, lazily = ONLY_IN[name]
        path = each.file.as_posix()
        if not _matches(path, freely) and not (each.lazy and _matches(path, lazily)):
            yield _only_in(name, freely, lazily)


def _room(module: str) -> str | None:
    """The room of the engine that a module is in; ``None`` = beside the rooms, or elsewhere."""
    inner = module.removeprefix("mercury.engine.").partition(".")[0]
    return inner if module.startswith("mercury.engine.") and inner in ROOMS else None


def _may_enter(room: str | None, other: str | None) -> bool:
    return other in (None, room) or (room is not None and other in ROOMS[room])


def _only_in(name: str, freely: tuple[str, ...], lazily: tuple[str, ...]) -> str:
    places = [*freely, *(f"{each} (in a function or for type hints)" for each in lazily)]
    return f"{name} is imported in {', '.join(places)} only"


def _part(module: str, parts: Iterable[str]) -> str | None:
    """The longest of these names that the module is or lies below; the top package stands for its own file only."""
    fitting = [part for part in parts if part != "mercury" and _within(module, (part,))]
    return max(fitting, key=len) if fitting else ("mercury" if module == "mercury" else None)


def _within(module: str, names: Iterable[str]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in names)


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(path, pattern) for pattern in patterns)


def bare_imports(root: Path, *folders: str) -> list[str]:
    """Every import of a name that would load a second copy of a part."""
    return [
        f"{each.file}:{each.line}: import mercury.{each.module}: the bare name would load a second copy"
        for file in python_files(root, *folders)
        if _BARE_NAME.search(file.read_text(encoding="utf-8"))  # most files have none, and are not parsed
        for each in imports(root, file)
        if each.module.partition(".")[0] in BARE
    ]


def shadowing_packages(root: Path, folder: str) -> list[str]:
    """Folders that a test run would import by such a name: packages whose parent is no package."""
    return [
        f"{path.parent.relative_to(root)}: this package is imported as {path.parent.name!r}, the name of a part"
        for path in sorted((root / folder).rglob("__init__.py"))
        if path.parent.name in BARE and not (path.parent.parent / "__init__.py").exists()
    ]


# --- circles of files ------------------------------------------------------------------------------------------------


def circles(root: Path, folder: str = "mercury") -> list[str]:
    """One way around for each group of files that import each other, directly or through others.

    Imports in functions and for type hints count too. A package is its ``__init__``.
    """
    files = {module_name(root, file): file for file in python_files(root, folder)}
    known = {module: _imported(root, file, files.keys()) - {module} for module, file in files.items()}
    found, told = [], set[str]()
    for module in sorted(known):
        around = _way(module, module, known)
        if around and module not in told:
            found.append(" -> ".join([module, *around]))
            told |= {each for each in known if _way(module, each, known) and _way(each, module, known)}
    return found


def _imported(root: Path, file: Path, files: Set[str]) -> set[str]:
    """The files of these that a file imports: of ``from a import b`` the module ``a.b`` where there is one."""
    found = set()
    package = _package(root, file)
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        for module in _modules(node, package):
            names = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            parts = {f"{module}.{name}" for name in names} & files
            found |= parts if names and len(parts) == len(names) else parts | {module}
    return found & files


def _way(start: str, end: str, known: Mapping[str, set[str]]) -> list[str]:
    """The files after ``start`` on a shortest way of imports to ``end``; empty = there is none."""
    before: dict[str, str] = {}
    edge = [start]
    while edge and end not in before:
        following = []
        for module in edge:
            for each in sorted(known[module] - before.keys()):
                before[each] = module
                following.append(each)
        edge = following
    if end not in before:
        return []
    way = [end]
    while before[way[-1]] != start:
        way.append(before[way[-1]])
    return way[::-1]
