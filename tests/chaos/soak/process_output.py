"""Reads the processes' output: errors that their applications caught, and warnings in their logs."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from tests.chaos.forks import Fork
from tests.chaos.programs.stream import CAUGHT, LEAVING

#: ``  1234 WARNING mercury.engine: text``
RECORD = re.compile(r"^ *\d+ (WARNING|ERROR|CRITICAL) ([\w.]+): (.*)$")
#: Parts of a record that differ between two of the same kind.
PARTICULARS = re.compile(r"urn:uuid:[\w-]+|[^\s\"'(]*/[^\s)\"']*|'[^']*'|\b[0-9a-f]{8,}\b|\d+(?:\.\d+)?")
TRACEBACK = "Traceback (most recent call last)"
LONGEST = 110
UNKNOWN = "mercury.errors.OutcomeUnknown"
AT_COMMIT = "the commit"
OF_MERCURY = f"{AT_COMMIT}: mercury.errors."


@dataclass(slots=True)
class ProcessOutput:
    """The sums over all processes, including killed ones."""

    #: The number of errors that the clients' applications caught, by place and type.
    caught: Counter[str] = field(default_factory=Counter)
    #: The first text of each kind.
    examples: dict[str, str] = field(default_factory=dict)
    #: Attempts whose error says that they are not committed, with the error.
    refused: dict[str, str] = field(default_factory=dict)
    #: The number of warnings and errors in the logs, by kind.
    warned: Counter[str] = field(default_factory=Counter)
    tracebacks: Counter[str] = field(default_factory=Counter)
    #: The number of characters that were read of each process's stdout and stderr, by process id.
    _read: dict[int, tuple[int, int]] = field(default_factory=dict)

    def read(self, name: str, fork: Fork, *, ended: bool = False) -> None:
        """Read a process's output since the last call."""
        out, err = self._read.get(fork.pid, (0, 0))
        printed, logged = fork.out, fork.err
        # An incomplete last line is read by the next call.
        till_out, till_err = printed.rfind("\n") + 1, len(logged) if ended else logged.rfind("\n") + 1
        for line in printed[out:till_out].splitlines():
            self._take(line)
        self._take_log(name.partition(" ")[0], logged[err:till_err])
        if ended:
            self._read.pop(fork.pid, None)  # the process id may be reused
        else:
            self._read[fork.pid] = till_out, till_err

    def misled(self, attempts: set[str]) -> list[str]:
        """Errors that say "not committed" about attempts that are committed.

        :param attempts: the committed attempts.
        """
        return [f"{self.refused[attempt]} (attempt {attempt})" for attempt in sorted(attempts & self.refused.keys())]

    @property
    def foreign(self) -> list[str]:
        """Errors of a commit that are not Mercury's, which do not say whether the transaction was committed."""
        return [name for name in self.caught if name.startswith(AT_COMMIT) and not name.startswith(OF_MERCURY)]

    def _take(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word != CAUGHT:
            return
        where, kind, attempt, *text = rest.split(" ", 3)
        place = AT_COMMIT if where == LEAVING else where
        self.caught[f"{place}: {kind}"] += 1
        self.examples.setdefault(f"{place}: {kind}", " ".join(text))
        if kind != UNKNOWN:
            self.refused[attempt] = f"{place}: {kind}: {' '.join(text)}"

    def _take_log(self, side: str, text: str) -> None:
        lines = text.splitlines()
        for number, line in enumerate(lines):
            if found := RECORD.match(line):
                level, logger, message = found.groups()
                same = PARTICULARS.sub("…", message)[:LONGEST]
                self.warned[f"{side}: {level} {logger}: {same}"] += 1
            if line.startswith(TRACEBACK):
                # The exception's line is the first one after the traceback that is not indented.
                last = next((each for each in lines[number + 1 :] if each and not each.startswith(" ")), "")
                self.tracebacks[f"{side}: {PARTICULARS.sub('…', last)[:LONGEST]}"] += 1
