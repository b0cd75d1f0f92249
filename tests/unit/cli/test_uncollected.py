"""A start is without collections, and afterwards the collector is as it was."""

from __future__ import annotations

import gc
import subprocess
import sys

from mercury.cli.collector import uncollected


def test_a_block_is_without_collections_and_freezes_nothing() -> None:
    frozen = gc.get_freeze_count()
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == frozen


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_garbage_of_a_block_is_old_and_found() -> None:
    program = """
import gc, weakref
from mercury.cli.collector import uncollected
class Node: pass
with uncollected():
    node = Node()
    node.itself = node
assert any(each is node for each in gc.get_objects(generation=2))
found = weakref.ref(node)
del node
gc.collect()
assert found() is None
"""
    subprocess.run([sys.executable, "-c", program], check=True)
