"""Keeps the garbage collector from looking again and again through what lives as long as the process."""

from __future__ import annotations

import gc


class FrozenObjects:
    """Everything that exists when a runtime starts: modules, classes, compiled statements, the application's objects.

    There are hundreds of thousands of them, and a full collection takes 60 ms or more to look through them, while no
    other thread runs. Under load there is one every few thousand messages. Frozen objects are left out
    (`gc.freeze`): they are freed as always when nothing refers to them, but those that only refer to each other in a
    circle are not, until `thaw` (decision 96).

    It holds for the whole process. What the application has frozen stays as it is.
    """

    def __init__(self) -> None:
        self._frozen = False

    def freeze(self) -> None:
        """Freeze all objects, unless some are frozen already: by another runtime, or by the application."""
        if gc.get_freeze_count() == 0:
            gc.freeze()
            self._frozen = True

    def thaw(self) -> None:
        """Let the collector look at all objects again, if this instance has frozen them."""
        if self._frozen:
            self._frozen = False
            gc.unfreeze()
