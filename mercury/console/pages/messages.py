"""Messages: search, the waiting ones, and one in full."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from types import MappingProxyType

from mercury.console import fields, payloads
from mercury.console.pages.facts import Fact, known
from mercury.console.site import Site
from mercury.console.visits import BadRequest, NotFound, View, Visit, link
from mercury.operations.messages import Places, WholeMessage
from mercury.operations.operator import Operations
from mercury.operations.timelines import of_settled
from mercury.storage.letters import Direction
from mercury.storage.records import OutboundMessage
from mercury.storage.searching import MessageFilter, MessageState, UnknownPlace

#: The messages of one page of the list.
PAGE = 50
#: The state of messages that do not wait any more.
DONE = "done"
#: The states in words.
WORDS: Mapping[MessageState, str] = MappingProxyType(
    {
        MessageState.UNSENT: "not sent yet",
        MessageState.UNACKNOWLEDGED: "sent, not acknowledged",
        MessageState.UNANSWERED: "not answered",
        MessageState.FAILING: "its handler fails",
    }
)


def add_pages(site: Site, operations: Operations, zone: datetime.tzinfo) -> None:
    """Add the search and the page of one message.

    :param zone: the time zone of times in the search.
    """

    def listed(visit: Visit) -> View:
        direction = fields.member(visit, "direction", Direction) or Direction.OUTBOUND
        done = visit.text("state") == DONE
        state = None if done else fields.member(visit, "state", MessageState)
        if done:
            direction = Direction.OUTBOUND
        if state is MessageState.FAILING:
            direction = Direction.INBOUND
        values: dict[str, object] = {
            "direction": direction.value,
            "state": DONE if done else state.value if state is not None else "",
            "states": [*((each.value, words) for each, words in WORDS.items()), (DONE, "done, and remembered")],
            "done": done,
            "settled": (),
            "zone": str(zone),
            "places": None,
            "lines": (),
            "after": None,
        }
        if visit.given("message_id") or visit.given("correlation"):
            places = operations.messages.places(
                message_id=visit.given("message_id"), correlation=visit.given("correlation")
            )
            return View(template="messages.html", values=values | {"places": places, "nothing": is_empty(places)})
        sends = direction is Direction.OUTBOUND
        which = MessageFilter(
            endpoint=visit.given("endpoint") if sends else None,
            key=visit.given("key") if sends else None,
            service=visit.given("endpoint") if not sends else None,
            sequence=visit.given("sequence"),
            state=state,
            since=fields.moment(visit, "since", zone),
            until=fields.moment(visit, "until", zone),
        )
        try:
            if done:
                settled = operations.messages.settled(which, visit.given("after"), PAGE)
                found = {"settled": settled.items, "after": settled.after}
                return View(template="messages.html", values=values | found)
            page = operations.messages.page(direction, which, visit.given("after"), PAGE)
        except UnknownPlace as error:
            raise BadRequest(f"There is no such page: {error}") from error
        return View(template="messages.html", values=values | {"lines": page.items, "after": page.after})

    def shown(visit: Visit) -> View:
        whole = one_message(operations, visit)
        message = whole.message
        return View(
            template="message.html",
            values={
                "section": "messages",
                "timeline": whole.timeline,
                "seen": whole.seen,
                "facts": facts(whole),
                "payload": payloads.shown(message.payload),
                "headers": [payloads.shown(each) for each in message.headers],
                "attachments": message.attachments,
            },
        )

    def settled(visit: Visit) -> View:
        found = (
            operations.messages.places(message_id=visit.text("message_id")).settled if visit.text("message_id") else ()
        )
        if not found:
            raise NotFound("No message that is done is remembered under this MessageID.")
        message = found[0]
        about = known(
            [
                Fact("MessageID", message.message_id),
                Fact("correlation", message.correlation, link("messages", correlation=message.correlation)),
                Fact("endpoint", message.endpoint),
                Fact("key", message.key),
                Fact("sequence", message.sequence, link("sequence", id=message.sequence)),
                Fact("number", message.number),
            ]
        )
        values = {"section": "messages", "message": message, "facts": about, "timeline": of_settled(message)}
        return View(template="settled.html", values=values)

    site.page("settled", settled)
    site.page("messages", listed)
    site.page("message", shown)


def one_message(operations: Operations, visit: Visit) -> WholeMessage:
    """The message that an address names by ``direction`` and ``position``.

    :raises NotFound: it does not wait any more.
    """
    direction = fields.member(visit, "direction", Direction) or Direction.OUTBOUND
    whole = operations.messages.one(direction, fields.number(visit, "position"))
    if whole is None:
        raise NotFound("This message does not wait any more: it is done, or has become a dead letter.")
    return whole


def is_empty(places: Places) -> bool:
    """Whether a search has found nothing."""
    return not (places.waiting or places.settled or places.letters)


def facts(whole: WholeMessage) -> list[Fact]:
    """The envelope of a message, as far as it is stored."""
    seen, message = whole.seen, whole.message
    found = [
        Fact("MessageID", message.message_id),
        Fact("action", message.action),
        Fact("correlation", message.correlation, link("messages", correlation=message.correlation)),
        Fact("RelatesTo", message.relates_to, link("messages", message_id=message.relates_to)),
        Fact("trace", message.trace.id if message.trace is not None else None),
    ]
    if isinstance(message, OutboundMessage):
        channel = message.channel
        found += [
            Fact("to", channel.to),
            Fact("endpoint", channel.endpoint if channel.endpoint != channel.to else None),
            Fact("key", channel.key.name),
            Fact("replies go to", channel.reply_to.address),
            Fact("expects a response", "yes" if message.expects_response else None),
            Fact("callback", message.callback),
        ]
    else:
        found += [
            Fact("service", seen.endpoint or "(responses)", link("service", name=seen.endpoint or "-")),
            Fact("element", message.element),
            Fact("ReplyTo", message.reply_to.address if message.reply_to is not None else None),
            Fact("FaultTo", message.fault_to.address if message.fault_to is not None else None),
        ]
    found += [
        Fact("sequence", seen.sequence, link("sequence", id=seen.sequence)),
        Fact("number", seen.number),
        Fact("last of its sequence", "yes" if message.last else None),
        Fact("fault", "yes" if message.is_fault else None),
        Fact("trace", getattr(message, "traceparent", None)),
        Fact(
            "damaged", "its row in the store is damaged: it is neither sent nor delivered" if message.damaged else None
        ),
    ]
    return known(found)
