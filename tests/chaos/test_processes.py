"""The process tools of the chaos tests: they notice events in time, and leave no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mercury.postgres.processes import ended
from tests.acceptance.processes import PATIENCE, ROOT, eventually
from tests.chaos.processes import Child, Children

#: Prints each input line with its number.
ECHO = """
import sys
print("ready", flush=True)
for number, line in enumerate(sys.stdin, 1):
    print("heard", number, line.strip(), flush=True)
"""

#: Starts a child process that waits for ever.
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print("child", child.pid, flush=True)
child.wait()
"""

#: Ends at SIGTERM.
ASKED = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("ready", flush=True)
signal.sigwait([signal.SIGTERM])
print("bye")
"""

WAIT = "import signal; print('ready', flush=True); signal.pause()"


@pytest.fixture
def children() -> Iterator[Children]:
    with Children() as started:
        yield started


def states(child: Child) -> set[str]:
    """The state letters of its threads."""
    texts = [path.read_text() for path in Path(f"/proc/{child.pid}/task").glob("*/stat")]
    return {text.rpartition(")")[2].split()[0] for text in texts}


# --- waiting -------------------------------------------------------------------------------------------------------


def test_lines_are_waited_for_one_after_the_other(children: Children) -> None:
    child = children.start("-c", ECHO)
    child.line("^ready$")
    for number in (1, 2):
        child.tell("a")
        assert child.line(r"^heard (\d) a$")[1] == str(number)
    assert child.out == "ready\nheard 1 a\nheard 2 a\n"


def test_lines_that_do_not_match_are_passed_over(children: Children) -> None:
    child = children.start("-c", "print('a'); print('b'); print('a')")
    child.line("b")
    child.line("a")
    with pytest.raises(AssertionError, match="no line 'a'"):
        child.line("a")


def test_half_a_line_is_none(children: Children) -> None:
    child = children.start("-c", "import sys; print('sent', 1); print('sent', 2, end=''); print('on', file=sys.stderr)")
    child.line("sent 1")
    with pytest.raises(AssertionError, match="no line 'sent 2'"):
        child.line("sent 2")
    assert child.end().out == "sent 1\nsent 2"


def test_one_that_ends_is_not_waited_for_and_tells_why(children: Children) -> None:
    child = children.start("-c", "print('so far'); raise SystemExit('no database')")
    with pytest.raises(AssertionError, match=r"no line 'ready'; exit code 1\n--- out\nso far\n\n--- err\nno database"):
        child.line("ready")


def test_one_that_hangs_tells_where(children: Children) -> None:
    child = children.start("-c", "import time\ndef forever():\n    while True: time.sleep(1)\nprint('on')\nforever()")
    child.line("on")
    with pytest.raises(AssertionError, match=r"no line 'ready'(?s:.*)--- err(?s:.*) in forever"):
        child.line("ready", patience=0.01)
    assert not child.runs


def test_one_that_hangs_while_it_is_suspended_tells_where_too(children: Children) -> None:
    child = children.start("-c", ECHO)
    child.line("ready")
    child.suspend()
    with pytest.raises(AssertionError, match=r"it does not end(?s:.*)Current thread"):
        child.ends(patience=0.01)


def test_condition_in_another_process_is_waited_for(children: Children, tmp_path: Path) -> None:
    file = tmp_path / "made"
    children.start("-c", f"open({str(file)!r}, 'w').close(); {WAIT}").until(file.exists, "the file is made")
    # A condition that a process meets directly before its end counts.
    children.start("-c", f"import os; os.remove({str(file)!r})").until(lambda: not file.exists(), "it is removed")
    for program in ("pass", WAIT):
        with pytest.raises(AssertionError, match="never: the file comes back"):
            children.start("-c", program).until(file.exists, "the file comes back", patience=0.05)


def test_the_end_is_waited_for(children: Children) -> None:
    child = children.start("-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    ends = child.ends()
    assert (ends.code, ends.out, ends.err) == (3, "out\n", "err\n")
    assert child.end() == ends


def test_much_output_blocks_nothing(children: Children) -> None:
    child = children.start(
        "-c", "import sys\nfor f in (sys.stderr, sys.stdout): f.write('x' * 10**6 + '\\n')\nprint('on')"
    )
    child.line("^on$")
    assert len(child.ends().err) == 10**6 + 1


def test_the_tests_own_variables_are_not_the_childs(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERCURY_LOG_FORMAT", "json")
    show = "import os; print(os.environ.get('MERCURY_LOG_FORMAT'), os.environ.get('MERCURY_LOG_LEVEL'))"
    assert children.start("-c", show, MERCURY_LOG_LEVEL="ERROR").ends().out == "None ERROR\n"


# --- signals -------------------------------------------------------------------------------------------------------


def test_a_suspended_process_pauses_and_goes_on(children: Children) -> None:
    child = children.start(
        "-c", "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()" + ECHO
    )
    child.line("ready")
    for number in (1, 2):
        child.suspend()
        assert states(child) == {"T"}
        assert child.runs
        child.tell("while you slept")
        child.go_on()
        child.line(f"heard {number} while you slept")


def test_killed_it_is_gone_with_what_it_started(children: Children) -> None:
    child = children.start("-c", PARENT)
    grandchild = int(child.line(r"child (\d+)")[1])
    assert not ended(grandchild)
    assert child.kill().code == -signal.SIGKILL
    assert ended(child.pid)
    eventually(lambda: ended(grandchild), "the grandchild is gone")


def test_one_that_is_suspended_can_be_killed(children: Children) -> None:
    child = children.start("-c", WAIT)
    child.line("ready")
    child.suspend()
    assert child.kill().code == -signal.SIGKILL


def test_one_can_be_terminated(children: Children) -> None:
    child = children.start("-c", ASKED)
    child.line("ready")
    child.terminate()
    ends = child.ends()
    assert (ends.code, ends.out) == (0, "ready\nbye\n")


@pytest.mark.parametrize(
    "act", [Child.kill, Child.suspend, Child.go_on, Child.terminate, lambda child: child.tell("a")]
)
def test_nothing_is_done_to_one_that_has_ended_by_itself(children: Children, act: Callable[[Child], object]) -> None:
    child = children.start("-c", "raise SystemExit(7)")
    child.until(lambda: not child.runs, "it ends")
    with pytest.raises(AssertionError, match="exit code 7"):
        act(child)


# --- clean-up ------------------------------------------------------------------------------------------------------


def test_all_are_gone_after_the_block_also_when_it_fails() -> None:
    pids: list[int] = []
    with pytest.raises(ZeroDivisionError), Children() as children:
        for program in (WAIT, PARENT, WAIT):
            child = children.start("-c", program)
            pids += [child.pid, int((child.line(r"ready|child (\d+)")[1]) or child.pid)]
        child.suspend()
        raise ZeroDivisionError
    eventually(lambda: all(map(ended, pids)), "all have ended")


def test_all_are_gone_when_the_tests_are_killed() -> None:
    program = (
        "from tests.chaos.processes import Children\n"
        "from tests.postgres import embedded_postgres\n"
        "with Children() as children, embedded_postgres() as server:\n"
        f"    children.start('-c', {WAIT!r})\n"
        f"    child = children.start('-c', {PARENT!r})\n"
        "    grandchild = child.line('child (.+)')[1]\n"
        "    child.suspend()\n"
        "    print(child.pid, grandchild, server.pid, server.folder, flush=True)\n"
        "    input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tests:
        assert tests.stdout is not None
        *pids, folder = tests.stdout.readline().split()
        assert [ended(int(pid)) for pid in pids] == [False] * 3
        assert os.path.isdir(folder)
        tests.kill()
        tests.wait(PATIENCE)
    for pid in pids:
        eventually(lambda pid=int(pid): ended(pid), f"{pid} has ended")  # type: ignore[misc]
    eventually(lambda: not os.path.exists(folder), f"{folder} is removed")
