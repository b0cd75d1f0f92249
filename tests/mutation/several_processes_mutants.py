"""The guards of several processes that deliver on arrival, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

STORED = "tests/storage/test_delivery_on_arrival.py"
HANGING = "tests/storage/test_hanging_elsewhere.py"
POSTPONED = "tests/unit/engine/runtime/test_postponed.py"
RECEIVED = "tests/unit/engine/delivery/test_received.py"
LOCKING = "tests/conformance/test_free_locks.py"
NODES = "tests/storage/test_nodes.py"
HELD = "test_arrivals_at_one_process_while_a_handler_hangs_in_another_wait_and_hold_back_nothing_else"
LEFT_OUT = "test_destination_sequences_that_others_have_locked_can_be_left_out"


def several(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A guard that is removed."""
    return Mutant(f"several processes: {name}", (Change(f"mercury.{symbol}", before, after),), test=test)


SEVERAL_PROCESSES = (
    several(
        "a process learns of the others",
        "engine.runtime.node:NodeWorker.run_once",
        "self._note_others(self._store.others(self._identifier, since))",
        "self._note_others(False)",
        f"{NODES}::test_a_process_learns_whether_there_are_others",
    ),
    several(
        "reception waits for no sequence",
        "engine.destination.free_sequences:lock_free",
        "only_free=others",
        "only_free=False",
        f"{STORED}::{HELD}",
    ),
    several(
        "reception waits for workers of its own process",
        "engine.destination.free_sequences:lock_free",
        "context.own_locks.wait_for(wanted)",
        "pass",
        f"{STORED}::test_arrival_waits_for_a_worker_of_its_own_process_and_is_delivered_then",
    ),
    several(
        "the last other process may go meanwhile",
        "engine.destination.free_sequences:lock_free",
        "if others else []",
        "if context.others else []",
        f"{STORED}::test_sequence_that_is_locked_while_the_last_other_process_goes_is_not_an_unknown_one",
    ),
    several(
        "reception waits only where it delivers",
        "engine.destination.free_sequences:lock_free",
        " and context.store.capabilities.delivers_on_arrival",
        "",
        f"{STORED}::test_sqlite_stores_what_it_receives",
    ),
    several(
        "reception waits for no buffer",
        "storage.sql.rmd:SqlRmd.lock",
        "only_free=only_free) if last",
        "only_free=False) if last",
        f"{STORED}::test_arrivals_wait_for_no_buffer_of_a_sequence_that_another_process_is_at_work_on",
    ),
    several(
        "reception of many sequences waits for no buffer",
        "storage.sql.rmd:SqlRmd.lock",
        "part[-1] == missing[-1]",
        "len(part) == len(missing)",
        f"{STORED}::test_buffer_that_another_has_locked_is_left_out_of_more_than_one_statement_names",
    ),
    several(
        "a buffer that was left out is not locked",
        "storage.sql.invoker:SqlInvoker.lock",
        "new if all_found else [name for name in new if name in found]",
        "new",
        f"{STORED}::test_buffer_that_was_left_out_is_not_counted_as_locked",
    ),
    several(
        "what is repeated alone is only stored, too",
        "engine.destination.reception:Reception._commit",
        "[each.undecided()], now, delivers=False)",
        "[each.undecided()], now)",
        f"{STORED}::test_arrival_that_is_repeated_alone_is_not_delivered_by_a_thread_that_only_stores",
    ),
    several(
        "no copy of a message waits for its handler",
        "engine.destination.replay:holds_up_copies",
        "context.others and any(each.envelope.verified is not None for each in exchanges)",
        "False",
        f"{STORED}::test_no_handler_is_called_while_a_copy_in_another_process_would_wait_for_it",
    ),
    several(
        "a worker says what it locks",
        "engine.destination.worker:DestinationWorker.run_once",
        "own_locks.note(due)",
        "own_locks.note([])",
        "tests/scenario/test_acknowledgements.py::test_reception_waits_for_the_worker_that_acknowledges",
    ),
    several(
        "a worker that waits itself is not waited for",
        "engine.own_locks:OwnLocks._left",
        "min(max(found), latest) + PATIENCE - self._monotonic()",
        "PATIENCE",
        "tests/unit/engine/test_own_locks.py::test_worker_that_waits_itself_is_not_waited_for",
    ),
    several(
        "workers that begin later are not waited for in addition",
        "engine.own_locks:OwnLocks._left",
        "min(max(found), latest)",
        "max(found)",
        "tests/unit/engine/test_own_locks.py"
        "::test_workers_that_begin_one_after_the_other_are_not_waited_for_again_and_again",
    ),
    several(
        "what is locked elsewhere is not taken for unknown",
        "engine.destination.free_sequences:lock_free",
        "if held:",
        "if False:",
        f"{STORED}::{HELD}",
    ),
    several(
        "a sequence that does not exist is not locked elsewhere",
        "engine.destination.free_sequences:lock_free",
        "held = tx.rmd.read_many(missing) if missing else {}",
        "held = dict.fromkeys(missing)",
        f"{STORED}::test_unknown_sequence_is_refused_beside_other_processes_too",
    ),
    several(
        "the rest is handled",
        "engine.destination.reception:Reception._commit",
        "if exchange not in held.exchanges]",
        "if False]",
        f"{STORED}::{HELD}",
    ),
    several(
        "a transaction that postpones is no failure",
        "engine.delivery.on_arrival:ArrivalDelivery.reserved",
        "            except HeldElsewhere:\n                raise  # nothing was done\n",
        "",
        f"{STORED}::test_messages_are_delivered_on_arrival_after_some_were_postponed",
    ),
    several(
        "what may not wait any longer is refused",
        "engine.destination.reception:Reception.receive",
        "answer.postponed and not postpones",
        "False",
        f"{STORED}::{HELD}",
    ),
    several(
        "postponed arrivals are handled later",
        "engine.runtime.threads:Runtime._answer_all",
        "self._postponed.put(self._answer_some(waiting, delivers=True, postpones=True))",
        "self._answer_some(waiting, delivers=True, postpones=True)",
        f"{HANGING}::test_process_receives_everything_else_while_a_handler_hangs_in_another_one",
    ),
    several(
        "what the committer postpones last is answered",
        "engine.runtime.threads:Runtime.stop",
        "if thread is self._postponed.thread:",
        "if thread is self._committer:",
        "tests/unit/engine/runtime/test_postponed_at_the_end.py::"
        "test_arrival_that_is_postponed_while_the_process_stops_is_refused",
    ),
    several(
        "postponed arrivals do not wait for ever",
        "engine.runtime.postponed:PostponedArrivals.try_again",
        "each.until <= now",
        "False",
        f"{POSTPONED}::test_arrival_that_has_waited_for_long_is_refused",
    ),
    several(
        "not all may wait",
        "engine.runtime.postponed:PostponedArrivals.put",
        "len(self._postponed) < self._most",
        "True",
        f"{POSTPONED}::test_arrivals_above_the_most_that_may_wait_are_refused_at_once",
    ),
    several(
        "what is left at the end is refused",
        "engine.runtime.postponed:PostponedArrivals.try_again",
        "(refuses or each.until <= now)",
        "(each.until <= now)",
        f"{POSTPONED}::test_thread_tries_until_nothing_waits_and_refuses_what_is_left_at_its_end",
    ),
    several(
        "claims are given back",
        "engine.delivery.on_arrival:ArrivalDelivery.leave",
        "self.context.claims.give_back(claim)",
        "pass",
        f"{STORED}::test_claim_goes_to_the_process_that_receives",
    ),
    several(
        "claims on what arrives here are kept",
        "engine.delivery.on_arrival:ArrivalDelivery.leave",
        "not self._received.lately(",
        "not isinstance(",
        f"{STORED}::test_process_keeps_the_claim_on_what_arrives_there_too",
    ),
    several(
        "claims on the buffers of slow handlers are kept",
        "engine.delivery.on_arrival:ArrivalDelivery.leave",
        " or not self.savepoints.times.may_be_quick(record.service)",
        "",
        f"{STORED}::test_several_claims_go_to_the_process_that_receives_if_it_could_deliver_on_arrival",
    ),
    several(
        "claims on several buffers are given back",
        "engine.delivery.several:SeveralBuffers._commit",
        "self._leave(run.record, claims[run.record.sequence], now)",
        "pass",
        f"{STORED}::test_several_claims_go_to_the_process_that_receives_if_it_could_deliver_on_arrival",
    ),
    several(
        "a store that fails then fails no delivery",
        "engine.delivery.on_arrival:ArrivalDelivery.leave",
        "except StorageError as error:",
        "except NotImplementedError as error:",
        f"{STORED}::test_delivery_has_not_failed_if_its_claim_cannot_be_given_back",
    ),
    several(
        "few sequences are remembered",
        "engine.delivery.received:Received.__init__",
        "BoundedDict(MOST)",
        "BoundedDict(MOST**9)",
        f"{RECEIVED}::test_the_oldest_are_forgotten_because_peers_choose_how_many_there_are",
    ),
    several(
        "rows that others have locked are left out",
        "storage.sql.rmd",
        "skip_locked=True",
        "skip_locked=False",
        f"{STORED}::{HELD}",
    ),
    several(
        "what was left out is not locked",
        "storage.sql.rmd:SqlRmd.lock",
        "[name for name in locked if name in self._known] if only_free else locked",
        "locked",
        f"{LOCKING}::{LEFT_OUT}",
    ),
    several(
        "objects that others have locked are left out",
        "storage.memory.locks:HeldLocks.acquire_free",
        "if self._acquire(kind, name, wait=False)",
        "if self._acquire(kind, name, wait=False) or True",
        f"{LOCKING}::{LEFT_OUT}",
    ),
)
