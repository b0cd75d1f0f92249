"""What the processes have said: the errors that their applications caught, and what their logs warn of."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from tests.chaos.forks import Fork
from tests.chaos.programs.stream import CAUGHT, LEAVING

#: ``  1234 WARNING mercury.engine: text``
RECORD = re.compile(r"^ *\d+ (WARNING|ERROR|CRITICAL) ([\w.]+): (.*)$")
#: What differs between two records of the same kind.
PARTICULARS = re.compile(r"urn:uuid:[\w-]+|[^\s\"'(]*/[^\s)\"']*|'[^']*'|\b[0-9a-f]{8,}\b|\d+(?:\.\d+)?")
TRACEBACK = "Traceback (most recent call last)"
LONGEST = 110
UNKNOWN = "mercury.errors.OutcomeUnknown"
AT_COMMIT = "the commit"
OF_MERCURY = f"{AT_COMMIT}: mercury.errors."


@dataclass(slots=True)
class ProcessOutput:
    """The sums over all processes, those that were killed too."""

    #: Errors that the clients' applications caught, by where and by type.
    caught: Counter[str] = field(default_factory=Counter)
    #: The first text of each of them.
    examples: dict[str, str] = field(default_factory=dict)
    #: Attempts of which an error said that they are not committed.
    refused: dict[str, str] = field(default_factory=dict)
    #: Warnings and errors in the logs, without what differs between two of a kind.
    warned: Counter[str] = field(default_factory=Counter)
    tracebacks: Counter[str] = field(default_factory=Counter)
    #: How much was read of each process's output, by its number.
    _read: dict[int, tuple[int, int]] = field(default_factory=dict)

    def hear(self, name: str, fork: Fork, *, ended: bool = False) -> None:
        """Take what a process has said since it was last asked."""
        out, err = self._read.get(fork.pid, (0, 0))
        said, logged = fork.out, fork.err
        # Of a line that is half written the rest is read later.
        till_out, till_err = said.rfind("\n") + 1, len(logged) if ended else logged.rfind("\n") + 1
        for line in said[out:till_out].splitlines():
            self._take(line)
        self._take_log(name.partition(" ")[0], logged[err:till_err])
        if ended:
            self._read.pop(fork.pid, None)  # the number may go to another process
        else:
            self._read[fork.pid] = till_out, till_err

    def misled(self, attempts: set[str]) -> list[str]:
        """Errors that were raised over what is committed.

        :param attempts: those whose rows are marked as sent.
        """
        return [f"{self.refused[attempt]} (attempt {attempt})" for attempt in sorted(attempts & self.refused.keys())]

    @property
    def foreign(self) -> list[str]:
        """Errors of a commit that are not Mercury's: nobody is told what they mean for the transaction."""
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
                # The error's own line is the first after it that is not indented.
                last = next((each for each in lines[number + 1 :] if each and not each.startswith(" ")), "")
                self.tracebacks[f"{side}: {PARTICULARS.sub('…', last)[:LONGEST]}"] += 1
