"""A store finds exactly the buffers that have work by the definition in `mercury.statemachine.deliverable`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from mercury.statemachine.invoker import InvokerBuffer
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import DeliveryAssurance
from mercury.statemachine.ranges import RangeSet
from mercury.storage.api import StorageManager
from mercury.storage.records import InboundKind, InvokerRecord
from mercury.testing.contract.builders import NOW, inbound, marker
from mercury.testing.contract.stores import StoreFactory

HIGHEST = 5


@dataclass(frozen=True)
class Content:
    """A buffer and its messages."""

    machine: InvokerBuffer
    waiting: RangeSet
    #: The number of the message that is marked as the last, if it is in the buffer.
    says_last: int | None
    #: Whether the buffer has a marker that was not consumed: an end or a cut.
    marked: bool

    @property
    def has_work(self) -> bool:
        return self.marked or self.machine.has_work(self.waiting, self.says_last)


@st.composite
def contents(draw: st.DrawFn) -> Content:
    """Any content that reception and delivery can produce."""
    machine = InvokerBuffer(
        in_order=draw(st.booleans()),
        assurance=draw(st.sampled_from(DeliveryAssurance)),
        behavior=draw(st.sampled_from(IncompleteSequenceBehavior)),
        cut=draw(st.booleans()),
    )
    numbers = st.sets(st.integers(1, HIGHEST))
    passed = set(range(1, 1 + draw(st.integers(0, HIGHEST)))) if machine.in_order else draw(numbers)
    begun = set[int]()
    if passed and machine.assurance is DeliveryAssurance.AT_MOST_ONCE:
        begun = draw(st.sets(st.sampled_from(sorted(passed))))  # the rows stay until their handlers have returned
    waiting = (draw(numbers) - passed) | begun
    last = draw(st.none() | st.integers(max(passed | waiting, default=0), HIGHEST))
    says_last = last if last in waiting else None
    machine.last = draw(st.sampled_from([None, last])) if says_last else last
    machine.passed, machine.in_progress = _ranges(passed), _ranges(begun)
    return Content(machine, _ranges(waiting), says_last, draw(st.integers(0, 3)) == 0)


def _ranges(numbers: set[int]) -> RangeSet:
    return RangeSet((number, number) for number in numbers)


def test_due_are_the_buffers_with_work_as_it_is_defined(store: StorageManager, store_factory: StoreFactory) -> None:
    names = count()

    @settings(max_examples=store_factory.traits.walks, deadline=None, derandomize=True, database=None)
    @given(st.lists(contents(), min_size=1, max_size=6))
    def holds_for(found: list[Content]) -> None:
        buffers = {f"urn:buffer:{next(names)}": content for content in found}
        with store.transaction() as tx:
            for sequence, content in buffers.items():
                tx.invoker.insert(InvokerRecord(sequence=sequence, machine=content.machine.copy()))
                for number in content.waiting.numbers():
                    tx.invoker.add([inbound(number, sequence, last=number == content.says_last)])
                if content.marked:
                    tx.invoker.add([marker(InboundKind.CUT, 0, sequence)])
        due = store.due_invoker(NOW, 1_000_000)
        assert {name for name in buffers if name in due} == {name for name, each in buffers.items() if each.has_work}
        with store.transaction() as tx:
            for sequence in buffers:
                tx.invoker.delete(sequence)

    holds_for()
