"""Keeps the garbage collector from looking again and again through what is in use."""

from __future__ import annotations

import gc

#: Python's own thresholds of young objects, by version. An application that wants another one has set it.
DEFAULTS = frozenset({700, 2000})
#: After so many more young objects they are searched for circles. A transaction of a few hundred messages makes some
#: thousands, and with Python's threshold each of them is looked at while it is in use, in vain.
YOUNG = 20_000


class Collector:
    """How garbage is collected in this process while a runtime runs (decision 96).

    Everything that exists when a runtime starts is frozen (`gc.freeze`): modules, classes, compiled statements, the
    application's objects. There are hundreds of thousands of them, and a full collection takes 60 ms or more to look
    through them, while no other thread runs. Under load there is one every few thousand messages. Frozen objects are
    freed as always when nothing refers to them, but those that only refer to each other in a circle are not, until
    `restore`.

    Young objects are searched when there are `YOUNG` more of them.

    Both hold for the whole process. What the application has frozen stays as it is, and so does a threshold that it
    has set.
    """

    def __init__(self) -> None:
        self._frozen = False
        #: The thresholds before; ``None`` = they are as they were.
        self._before: tuple[int, int, int] | None = None

    def adapt(self) -> None:
        """Freeze all objects, unless some are frozen already: by another runtime, or by the application; likewise the
        threshold."""
        if gc.get_freeze_count() == 0:
            gc.freeze()
            self._frozen = True
        young, *older = before = gc.get_threshold()
        if young in DEFAULTS:
            gc.set_threshold(YOUNG, *older)
            self._before = before

    def restore(self) -> None:
        """Let the collector work as before, where this instance has changed it."""
        if self._frozen:
            self._frozen = False
            gc.unfreeze()
        if self._before is not None and gc.get_threshold()[0] == YOUNG:
            gc.set_threshold(*self._before)
        self._before = None
