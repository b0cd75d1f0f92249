"""The table of crash points, from which the matrix is made.

A point names a function of Mercury, or what the application does in a handler; a process can be stopped before the call
and after it. Mercury has no code for this: `hook` wraps the function in the process that is to be stopped. If a
combination of side, mode and form never reaches a point, the table has the reason, and a test checks both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.chaos.kinds import Form, Mode, Moment, Side, Way


@dataclass(frozen=True, slots=True)
class Function:
    """A function, in the module where its callers look it up."""

    module: str
    #: ``function`` or ``Class.method``.
    attribute: str


@dataclass(frozen=True, slots=True)
class Reach:
    """The combinations in which one side reaches a point."""

    modes: tuple[Mode, ...]
    ways: tuple[Way, ...] = (Way.FETCHED, Way.POSTED, Way.CREATED)


EVERY = Reach((Mode.IN_ONLY, Mode.IN_OUT))
RESPONSES = Reach((Mode.IN_OUT,))
POSTED = Reach((Mode.IN_ONLY, Mode.IN_OUT), (Way.POSTED, Way.CREATED))
FETCHED_RESPONSES = Reach((Mode.IN_OUT,), (Way.FETCHED,))
#: Fetched responses are numbered when they are stored, so they never reach the numbering step.
POSTED_RESPONSES = Reach((Mode.IN_OUT,), (Way.POSTED, Way.CREATED))
CREATED_RESPONSES = Reach((Mode.IN_OUT,), (Way.CREATED,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One step at which a process may be stopped."""

    #: ``step.what``
    name: str
    function: Function
    #: The function of the same step in the in-memory store; ``None`` = the same one.
    in_memory: Function | None = None
    #: Only calls made during a call of this function count.
    within: Function | None = None
    #: Only calls by threads whose names begin with this count.
    thread: str = ""
    #: The combinations in which the side reaches this point, or the reason why it never does.
    client: Reach | str
    server: Reach | str
    #: The forms in which the point is reached, and the reason why not in the others.
    forms: tuple[Form, ...] = (Form.SAME_DATABASE, Form.LAST_RESOURCE, Form.TWO_PHASE)
    elsewhere: str = ""
    #: The latest visit that may be selected.
    visits: int = 1
    #: Whether another process may take over: the process works under a claim, or coordinates a commit.
    taken_over: bool = True
    #: Of several processes, one may come here that is not the one to be stopped.
    alone: bool = False
    #: The point where a process must be killed before; a process that is started after that reaches this point.
    after: tuple[str, Moment] | None = None

    @property
    def step(self) -> str:
        return self.name.partition(".")[0]

    def reach(self, side: Side) -> Reach | str:
        return self.client if side is Side.CLIENT else self.server

    def never(self, side: Side, form: Form, mode: Mode, way: Way) -> str | None:
        """Why this side never reaches this point; ``None`` = it does."""
        reach = self.reach(side)
        if isinstance(reach, str):
            return reach
        if form not in self.forms:
            return self.elsewhere
        if mode not in reach.modes:
            return "an in-only message has no response"
        if mode is Mode.IN_ONLY and way is Way.CREATED:
            return "an in-only message has no response"
        if way not in reach.ways:
            if reach.ways == (Way.CREATED,):
                return "the sequence for responses is the one that was offered"
            return "the client does not listen" if Way.POSTED in reach.ways else "the client listens"
        return None


SENDER = "mercury.client.sender"
TRANSACTION = "mercury.storage.sql.transaction"
SOURCE = "mercury.engine.source.worker"
RECEPTION = "mercury.engine.destination.reception"
DESTINATION = "mercury.engine.destination.worker"
INVOCATION = "mercury.engine.delivery.invocation"
CALL = "mercury.engine.delivery.handler_call"
ENDS = "mercury.engine.destination.ends"
CREATION = "mercury.engine.destination.creation"
ROWS = "mercury.storage.sql.rms_rows"

COMMIT = Function(TRANSACTION, "SqlTransaction.commit_store")
ONE_TRANSACTION = (Form.SAME_DATABASE,)

SENDS_NOTHING = "the server's application sends nothing of its own"
ANSWERS = "the client's application is called back, it handles no requests"
CALLS = "the server's application is called by requests, not back"
COORDINATED = "with XA this commit is the coordinator's: see prepare, decide and commit prepared"
ONE_DATABASE = "one local transaction: nothing is prepared, and nothing is in doubt"
XA = (Form.LAST_RESOURCE, Form.TWO_PHASE)
COORDINATOR = "mercury.storage.xa.coordinator"
DECISIONS = "mercury.storage.xa.decisions"
RECOVERY = "mercury.storage.xa.recovery"

#: The points where a killed process leaves a prepared branch without a decision, and with a decision to commit.
UNDECIDED, DECIDED = ("prepare.branch", Moment.AFTER), ("decide.commit", Moment.AFTER)


def _coordination(
    name: str, module: str, attribute: str, *, visits: int = 1, after: tuple[str, Moment] | None = None
) -> Point:
    """A step of a two-phase commit or of its recovery."""
    return Point(
        name=name,
        function=Function(module, attribute),
        client=EVERY,
        server=EVERY,
        forms=XA,
        elsewhere=ONE_DATABASE,
        visits=visits,
        after=after,
    )


def _of_application(name: str, module: str, attribute: str) -> Point:
    """A step of a lone message, in the transaction of its application or behind it."""
    return Point(
        name=name,
        function=Function(module, attribute),
        client=EVERY,
        server=SENDS_NOTHING,
        forms=ONE_TRANSACTION,
        elsewhere="several databases take part, or the message is sent in a transaction of its own",
        taken_over=False,
        alone=True,
    )


POINTS = (
    # --- send ------------------------------------------------------------------------------------------------------
    Point(
        name="send.store",
        function=Function(SENDER, "Sender._store"),
        client=EVERY,
        server=SENDS_NOTHING,
        visits=12,
        taken_over=False,
    ),
    Point(
        name="send.commit",
        function=COMMIT,
        thread="application",
        client=EVERY,
        server=SENDS_NOTHING,
        forms=ONE_TRANSACTION,
        elsewhere=COORDINATED,
        visits=12,
        taken_over=False,
    ),
    Point(
        name="send.notify",
        function=Function("mercury.storage.sql.store", "SqlStore.notify"),
        thread="application",
        client=EVERY,
        server=SENDS_NOTHING,
        visits=12,
        taken_over=False,
    ),
    # --- a lone message, in the application's transaction ----------------------------------------------------------
    _of_application("number.application", "mercury.storage.sql.rms", "SqlRms.lock_appended"),
    _of_application("transmit.application", "mercury.engine.runtime.threads", "Runtime._post_behind"),
    # --- number ----------------------------------------------------------------------------------------------------
    Point(
        name="number.assign",
        function=Function("mercury.engine.source.numbering", "Numbering._assign"),
        client=EVERY,
        server=POSTED_RESPONSES,
        visits=12,
    ),
    Point(
        name="number.commit",
        function=COMMIT,
        within=Function(SOURCE, "SourceWorker._work"),
        client=EVERY,
        server=EVERY,
        visits=6,
    ),
    # --- transmit --------------------------------------------------------------------------------------------------
    Point(
        name="transmit.mark",
        function=Function("mercury.engine.source.transmission", "KeyWork._transmit_together"),
        client=EVERY,
        server=POSTED_RESPONSES,
        visits=4,
    ),
    Point(
        name="transmit.post",
        function=Function("mercury.engine.runtime.exchange_loop", "ExchangeLoop._begin"),
        client=EVERY,
        server=POSTED,
        visits=8,
    ),
    # --- receive ---------------------------------------------------------------------------------------------------
    Point(
        name="receive.handle",
        function=Function(RECEPTION, "handle"),
        client=EVERY,
        server=EVERY,
        visits=8,
        taken_over=False,
    ),
    Point(
        name="receive.commit",
        function=COMMIT,
        within=Function(RECEPTION, "Reception._handle"),
        client=EVERY,
        server=EVERY,
        visits=6,
        taken_over=False,
    ),
    # --- acknowledge -----------------------------------------------------------------------------------------------
    Point(
        name="acknowledge.answer",
        function=Function(RECEPTION, "Reception._answer"),
        client=EVERY,
        server=EVERY,
        visits=8,
        taken_over=False,
    ),
    Point(
        name="acknowledge.post",
        function=Function(DESTINATION, "DestinationWorker._acknowledge"),
        client=RESPONSES,
        server=POSTED,
        visits=2,
    ),
    Point(
        name="acknowledge.release",
        function=Function(ROWS, "SqlRmsRows.acknowledge"),
        client=EVERY,
        server=RESPONSES,
        visits=3,
        taken_over=False,
    ),
    # --- invoke; the client marks what was called back, and the end of the sequence for responses -------------------
    Point(
        name="invoke.handler",
        function=Function(CALL, "HandlerCall._handle"),
        client=ANSWERS,
        server=EVERY,
        visits=12,
    ),
    Point(
        name="invoke.insert",
        function=Function("tests.chaos.programs.setup", "Place.insert"),
        client=RESPONSES,
        server=EVERY,
        visits=12,
    ),
    Point(
        name="invoke.mark",
        function=Function("mercury.storage.sql.invoker", "SqlInvoker.save_delivered"),
        in_memory=Function("mercury.storage.memory.invoker", "MemoryInvoker.save_delivered"),
        client=EVERY,
        server=EVERY,
        visits=4,
    ),
    Point(
        name="invoke.commit",
        function=COMMIT,
        within=Function(INVOCATION, "InvocationWorker._run"),
        client=EVERY,
        server=EVERY,
        forms=ONE_TRANSACTION,
        elsewhere=COORDINATED,
        visits=4,
    ),
    # --- respond ---------------------------------------------------------------------------------------------------
    Point(
        name="respond.store",
        function=Function(CALL, "HandlerCall._respond"),
        client=ANSWERS,
        server=RESPONSES,
        visits=12,
    ),
    Point(
        name="respond.hold",
        function=Function("mercury.engine.runtime.held_exchanges", "HeldExchanges.hold"),
        client=ANSWERS,
        server=FETCHED_RESPONSES,
        visits=4,
        taken_over=False,
    ),
    # --- call back -------------------------------------------------------------------------------------------------
    Point(
        name="call back.callback",
        function=Function(CALL, "HandlerCall._call_back"),
        client=RESPONSES,
        server=CALLS,
        visits=12,
    ),
    Point(
        name="call back.consume",
        function=Function(ROWS, "SqlRmsRows.consumed"),
        client=RESPONSES,
        server=CALLS,
        visits=12,
    ),
    # --- two-phase commit ------------------------------------------------------------------------------------------
    _coordination("prepare.branch", COORDINATOR, "Coordinator.prepare", visits=10),
    _coordination("decide.insert", COORDINATOR, "Coordinator.decide", visits=6),
    _coordination("decide.commit", COORDINATOR, "Coordinator.commit_decision", visits=6),
    _coordination("commit prepared.branch", COORDINATOR, "Coordinator.commit_branch", visits=10),
    _coordination("forget.decisions", DECISIONS, "DecisionLog.forget", visits=3),
    # --- recover ---------------------------------------------------------------------------------------------------
    _coordination("recover.look", RECOVERY, "Recovery.recover_branch", visits=2, after=DECIDED),
    _coordination("recover.arbitrate", RECOVERY, "Recovery.arbitrate", after=UNDECIDED),
    _coordination("recover.roll back", RECOVERY, "Recovery.finish", after=UNDECIDED),
    _coordination("recover.commit", RECOVERY, "Recovery.finish", after=DECIDED),
    _coordination("recover.forget", DECISIONS, "DecisionLog.finished", after=DECIDED),
    # --- the life of a sequence ------------------------------------------------------------------------------------
    Point(
        name="sequence.create",
        function=Function(CREATION, "create"),
        client=CREATED_RESPONSES,
        server=EVERY,
        visits=2,
        taken_over=False,
    ),
    Point(
        name="sequence.created",
        function=Function(CREATION, "created"),
        client=EVERY,
        server=CREATED_RESPONSES,
        visits=2,
        taken_over=False,
    ),
    Point(
        name="sequence.end",
        function=Function(ENDS, "end"),
        client=POSTED,
        server=EVERY,
        visits=2,
        taken_over=False,
    ),
    Point(
        name="sequence.ended",
        function=Function(ENDS, "ended"),
        client=EVERY,
        server=POSTED,
        visits=2,
        taken_over=False,
    ),
)


def point(name: str, form: Form | None = None) -> Point:
    """The point of this name.

    :param form: use the function for this form.
    :raises KeyError: there is no such point.
    """
    found = {each.name: each for each in POINTS}[name]
    if form is Form.MEMORY and found.in_memory is not None:
        return replace(found, function=found.in_memory)
    return found


def functions(points: tuple[Point, ...] = POINTS) -> Iterator[Function]:
    """All functions that the table names."""
    for each in points:
        yield each.function
        if each.within is not None:
            yield each.within
        if each.in_memory is not None:
            yield each.in_memory
