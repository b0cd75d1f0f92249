"""Rules for the content of the repository's files, in any language."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Written in pieces, so that this file passes its own check.
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pypi", "python", "org"),
        ("pythonhosted", "org"),
        ("anaconda", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("crates", "io"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
        ("proxy", "golang", "org"),
        ("repo1", "maven", "org"),
    )
)

#: Paths of one machine: below the home folders, and a folder at the root of the file system that no standard names.
#: A path inside a URL, an XPath or an archive is none of these. Written in pieces too.
OWN_PATH = re.compile(
    r"(?:(?<![\w.\-/*~}\]])|(?<=file://))/(?:"
    + "work"
    + r"(?![\w\-])|"
    + "(?:"
    + "|".join(("root", "home"))
    + r")/[\w.])"
)

#: Left out where git does not say what belongs to the repository: in an unpacked source distribution.
IGNORED = frozenset({"__pycache__", "dist", "build", "out", "node_modules"})

MAX_LINES = 420


def files(root: Path) -> list[Path]:
    """The files of the repository, tracked or not yet, that git does not ignore; links are no files."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if (root / ".git").exists():
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, check=True)
        found: Iterable[Path] = (root / os.fsdecode(name) for name in done.stdout.split(b"\0") if name)
    else:
        found = _walk(root)
    return sorted(path for path in set(found) if path.is_file() and not path.is_symlink())


def _walk(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in IGNORED and not name.startswith(".")]
        yield from (Path(folder) / name for name in names)


def forbidden_texts(root: Path) -> list[str]:
    """Every line that names a registry's host or a path of one machine."""
    found = []
    for path in files(root):
        data = path.read_bytes()
        if b"\0" in data:
            continue  # not a text
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            place = f"{path.relative_to(root)}:{number}"
            found += [f"{place}: names the registry host {host}" for host in REGISTRY_HOSTS if host in line.lower()]
            if OWN_PATH.search(line):
                found.append(f"{place}: names a path of one machine: {line.strip()[:80]}")
    return found


def bad_pins(text: str) -> list[str]:
    """Lines of a constraints file that do not pin one distribution to one version."""
    pin = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?==[A-Za-z0-9.+!]+(?: *; *[^/@]+)?")
    lines = ((number, line.partition(" #")[0].strip()) for number, line in enumerate(text.splitlines(), 1))
    return [
        f"{number}: {line}"
        for number, line in lines
        if line and not line.startswith("#") and not (pin.fullmatch(line) and "://" not in line)
    ]


def pinned(text: str) -> set[str]:
    """The distributions that a constraints file pins, by their normalised names."""
    return {normal(found[1]) for found in re.finditer(r"^([A-Za-z0-9._-]+)==", text, re.MULTILINE)}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def too_long(root: Path, allowed: dict[str, int]) -> list[str]:
    """Source files of more lines than a reader keeps in mind."""
    found = []
    for path in sorted((root / "mercury").rglob("*.py")):
        name, lines = path.relative_to(root).as_posix(), len(path.read_text(encoding="utf-8").splitlines())
        if lines > allowed.get(name, MAX_LINES):
            found.append(f"{name}: {lines} lines, more than {allowed.get(name, MAX_LINES)}: make two of it")
    return found


def bad_links(root: Path, names: Iterable[str]) -> list[str]:
    """Top-level names that are not relative links to the part of that name."""
    found = []
    for name in names:
        path = root / name
        if not path.is_symlink():
            found.append(f"{name}: not a symbolic link")
        elif os.readlink(path) != f"mercury/{name}":
            found.append(f"{name}: leads to {os.readlink(path)}, not to mercury/{name}")
        elif not path.is_dir():
            found.append(f"{name}: leads nowhere")
    return found
