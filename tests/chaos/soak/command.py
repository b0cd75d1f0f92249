"""The options of ``python -m tests.chaos soak``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from tests.chaos.kinds import Form, Mode
from tests.chaos.soak import report
from tests.chaos.soak.run import Plan, run

FORMS = {"two-phase": Form.TWO_PHASE, "last-resource": Form.LAST_RESOURCE, "same-database": Form.SAME_DATABASE}
MODES = {mode.value: mode for mode in Mode}


def add_to(parser: argparse.ArgumentParser, say: Callable[[str], None], write: Callable[[str], object]) -> None:
    """Add the command's options.

    :param say: prints progress.
    :param write: prints the result.
    """
    default = Plan(lasting=0)
    parser.add_argument("--minutes", type=float, default=60.0, help="the duration of the faults; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="chooses the faults; default: %(default)s")
    parser.add_argument("--form", choices=tuple(FORMS), default="two-phase", help="default: %(default)s")
    parser.add_argument("--mode", choices=tuple(MODES), default=Mode.IN_OUT.value, help="default: %(default)s")
    parser.add_argument("--every", type=float, default=default.every, help="seconds between two faults, on average")
    parser.add_argument("--rate", type=float, default=default.rate, help="orders a second; default: %(default)s")
    parser.add_argument("--backlog", type=int, default=default.backlog, help="the most orders in transit")
    parser.add_argument("--calm", action="store_true", help="no faults, to measure the speed")
    parser.add_argument("--burst", type=int, default=0, help="with --minutes 0: the number of orders at the start")
    parser.add_argument("--patience", type=float, default=default.patience, help="seconds without progress at the end")
    parser.add_argument("--keep", type=Path, help="a folder for the processes' output")
    parser.add_argument("--output", choices=("text", "json"), default="text")

    def soak(options: argparse.Namespace) -> int:
        plan = Plan(
            lasting=options.minutes * 60,
            seed=options.seed,
            form=FORMS[options.form],
            mode=MODES[options.mode],
            every=options.every,
            rate=options.rate,
            backlog=options.backlog,
            calm=options.calm,
            burst=options.burst,
            patience=options.patience,
            keep=options.keep,
        )
        outcome = run(plan, say)
        shown = report.text(outcome) if options.output == "text" else json.dumps(report.as_json(outcome), indent=2)
        write(shown + "\n")
        return 0 if outcome.good else 1

    parser.set_defaults(run=soak)
