"""Keeps the garbage collector from looking for garbage among what imports make."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """A block without collections: what it makes lives as long as the process, so that a collection would find nothing.

    Hundreds of thousands of objects are made when Mercury, its libraries and an application are imported, and
    collections among them took a tenth of the CPU time of a start.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            # They become old without a look at each: the next collection of young objects would look at all of them.
            gc.freeze()
            gc.unfreeze()
        if was_enabled:
            gc.enable()
