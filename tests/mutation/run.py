"""Removes each guard in turn, in a copy of the tree, and expects its test to fail.

``python -m tests.mutation.run [NAME ...]`` prints a line for each mutant. Exit code 1 = a test passed without a guard,
or one that failed without its guard fails with all of them too.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from pathlib import Path

from tests.mutation.failed import FAILED
from tests.mutation.mutant import Mutant
from tests.mutation.mutants import MUTANTS
from tests.mutation.symbols import place_of, replaced
from tests.patience import VARIABLE
from tests.postgres import VARIABLE as SERVER
from tests.postgres import shared_postgres
from tests.prepared import PreparedProcess, prepared_process

ROOT = Path(__file__).resolve().parents[2]
#: Seconds for which the test of a mutant waits for what does not happen.
WAIT = "20"
#: Seconds after which a check is killed: many times what the longest takes.
LIMIT = 300.0
COPIED = ("mercury", "tests", "samples", "docs", "pyproject.toml", "constraints.txt", "README.md", "Makefile")


def copy_tree(target: Path) -> None:
    """A copy of what the checks need, with the bytecode of the modules: a mutant then compiles only what it changes.

    Bytecode that is there is copied: it is valid for files with the same time and size, and a copy has the same.
    """
    skipped = shutil.ignore_patterns("*.pyc.*", ".hypothesis")  # bytecode that another process is writing
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=skipped)
        elif source.exists():
            shutil.copy2(source, target / name)
    for name in ("storage", "statemachine", "service"):
        (target / name).symlink_to(Path("mercury") / name)
    compiling = [sys.executable, "-m", "compileall", "-q", "mercury", "tests", "samples"]
    # The bytecode of tests has pytest's assertions.
    files = sorted({mutant.test.partition("::")[0] for mutant in MUTANTS if mutant.test})
    missing = [
        file for file in files if not any((target / file).parent.glob(f"__pycache__/{Path(file).stem}.*-pytest-*"))
    ]
    collecting = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *missing]
    for once in (compiling, collecting) if missing else (compiling,):
        subprocess.run(once, cwd=target, env=environment(target, writes=True), capture_output=True, check=True)


def take_out(mutant: Mutant, tree: Path) -> None:
    """Apply a mutant's substitutions.

    :raises MovedGuardError: a text is not in the source of its symbol exactly once.
    """
    for change in mutant.changes:
        path, text = replaced(change.symbol, change.before, change.after, tree)
        path.unlink()  # it may be a link to the file of another tree
        path.write_text(text)


class Trees:
    """Copies of a tree with all guards, each for one mutant at a time: to link thousands of files for each mutant takes
    longer than many of their tests. Threads may share it.

    :param whole: the tree with all guards. It is not changed; the copies are made beside it.
    """

    def __init__(self, whole: Path) -> None:
        self.whole = whole
        self._free: queue.SimpleQueue[Path] = queue.SimpleQueue()

    @contextlib.contextmanager
    def without(self, mutant: Mutant) -> Iterator[Path]:
        """A copy without the guard of a mutant. Afterwards its files are again those of the whole tree.

        :raises MovedGuardError: see `take_out`.
        """
        try:
            tree = self._free.get_nowait()
        except queue.Empty:
            tree = Path(tempfile.mkdtemp(prefix="mutant-", dir=self.whole.parent)) / "tree"
            shutil.copytree(self.whole, tree, symlinks=True, copy_function=os.link)
        take_out(mutant, tree)
        yield tree
        # A copy whose mutant breaks off is not used again.
        for path in {place_of(change.symbol, self.whole).path for change in mutant.changes}:
            changed = tree / path.relative_to(self.whole)
            changed.unlink()
            changed.hardlink_to(path)
        for path in tree.iterdir():
            if not (self.whole / path.name).is_symlink() and not (self.whole / path.name).exists():
                shutil.rmtree(path)  # what the test has left, as Hypothesis leaves its examples
        self._free.put(tree)


def command(mutant: Mutant) -> list[str]:
    """The module that must fail, and its arguments."""
    if mutant.seeds:
        return ["tests.mutation.hunt", *_numbers(mutant.seeds)]
    # The assertions in plugins that are imported already are not rewritten: they are not what is tested.
    plugins = ("-p", "tests.mutation.failed", "-W", "ignore::pytest.PytestAssertRewriteWarning")
    # To print where it failed takes as long as many of the tests.
    return ["pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider", *plugins, mutant.test]


def _numbers(seeds: range) -> tuple[str, str, str]:
    return str(seeds.start), str(seeds.stop), str(seeds.step)


def environment(tree: Path, *, writes: bool = False, postgres: str = "") -> dict[str, str]:
    """In which a copy of the tree is what is imported, and pytest has no plugin but those that are named: to find and
    register those of all installed packages took a fifth of the CPU time of a short test, and no test of a mutant uses
    one.

    :param writes: bytecode is written.
    :param postgres: the URL of the server that the tests share; empty = they start one when they need it.
    """
    # By names and `get`: pytest sets and removes its own variables meanwhile, in another thread.
    known = {name: os.environ.get(name) for name in list(os.environ) if name != "PYTHONDONTWRITEBYTECODE"}
    own = {name: value for name, value in known.items() if value is not None}
    chosen = ({} if writes else {"PYTHONDONTWRITEBYTECODE": "1"}) | ({SERVER: postgres} if postgres else {})
    return {**own, "PYTHONPATH": str(tree), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **chosen}


def caught(
    mutant: Mutant, trees: Trees, process: PreparedProcess, postgres: str = "", limit: float = LIMIT
) -> tuple[bool, str]:
    """Whether the check fails without the guard, and how: the id of the test that failed, or what the hunt has found.
    A check that cannot even start has not caught anything.

    :param process: runs the check.
    :param postgres: the URL of the server whose databases the test uses; empty = it starts its own.
    :param limit: the seconds after which the check is killed.
    """
    with trees.without(mutant) as tree:
        of_check = environment(tree, postgres="" if mutant.seeds else postgres)
        for _ in range(2):
            started = time.monotonic()
            done = process.run(command(mutant), tree, {**of_check, VARIABLE: WAIT}, seconds=limit)
            if done.returncode >= 0:
                break
            if time.monotonic() - started >= limit:
                return False, f"its check hung, and was killed after {limit:g} s"
            # A process that was ended by another signal has said nothing: it is run again.
        # Both end with 1 when something is found; with 2 and more when they could not even look.
        how = verdict_of(done.stdout) or done.stderr[-200:]
        return done.returncode == 1, how if done.returncode in (0, 1) else f"{how} (exit code {done.returncode})"


def passing(tests: Iterable[str], whole: Path, postgres: str) -> tuple[bool, str]:
    """Whether tests pass in a copy of the tree, and what they say. As many processes as there are cores run them.

    :param postgres: the URL of the server whose databases the tests use.
    """
    files: dict[str, list[str]] = {}
    for test in tests:
        files.setdefault(test.partition("::")[0], []).append(test)
    count = len(os.sched_getaffinity(0))
    shares = [list(chain(*islice(files.values(), first, None, count))) for first in range(count)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    chosen = environment(whole, postgres=postgres)

    def run(share: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *share], cwd=whole, env=chosen, capture_output=True, text=True, check=False)

    with ThreadPoolExecutor(count) as pool:
        done = list(pool.map(run, filter(None, shares)))
    return bool(done) and all(each.returncode == 0 for each in done), "".join(each.stdout for each in done)


def verdict_of(output: str) -> str:
    """What was found: the id of the failed test, or what the last line says."""
    lines = [line for line in output.splitlines() if line.strip()]
    failed = [line.removeprefix(FAILED) for line in lines if line.startswith(FAILED)]
    return (failed or lines or [""])[-1]


def timed(trees: Trees, process: PreparedProcess, postgres: str, mutant: Mutant) -> tuple[Mutant, bool, str, float]:
    started = time.monotonic()
    return mutant, *caught(mutant, trees, process, postgres), time.monotonic() - started


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - {mutant.name for mutant in MUTANTS})
    if unknown:
        sys.stderr.write(f"error: there is no mutant {unknown[0]!r}\n")
        return 2
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    survivors, failed = 0, set[str]()
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        contextlib.ExitStack() as stack,
        shared_postgres("") as server,
        ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
    ):
        whole = Path(folder) / "whole"
        whole.mkdir()
        copy_tree(whole)
        process = stack.enter_context(prepared_process(tree=whole))
        postgres = server.create()
        timed_in = partial(timed, Trees(whole), process, postgres)
        for mutant, was_caught, how, seconds in pool.map(timed_in, chosen):
            survivors += not was_caught
            failed |= {how} if was_caught and mutant.test else set()
            verdict = "caught" if was_caught else "SURVIVED"
            sys.stdout.write(f"{verdict:8} {mutant.name:34} {seconds:5.1f} s  {how[:120]}\n")
            sys.stdout.flush()
        sound, output = passing(sorted(failed), whole, postgres) if failed else (True, "")
    sys.stdout.write(f"{len(chosen)} mutants, {survivors} survived\n")
    if not sound:
        sys.stdout.write(f"{output}\nTests above fail without a guard, but with all of them too.\n")
    return 1 if survivors or not sound else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
