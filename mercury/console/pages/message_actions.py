"""Actions on a waiting message, and on a service."""

from __future__ import annotations

from mercury.console.acting import actor_of, reason_of
from mercury.console.fields import member, number
from mercury.console.pages.messages import one_message
from mercury.console.pages.services import NO_SERVICE, service_name
from mercury.console.site import Site
from mercury.console.visits import Done, Question, View, Visit, link
from mercury.operations.operator import Operations
from mercury.storage.letters import Direction


def add_actions(site: Site, operations: Operations) -> None:
    """Add the actions."""

    def place(visit: Visit) -> tuple[Direction, int]:
        return member(visit, "direction", Direction) or Direction.OUTBOUND, number(visit, "position")

    def retry(visit: Visit) -> Done:
        direction, position = place(visit)
        operations.message_actions.retry(direction, position, actor_of(visit), reason=reason_of(visit))
        to = link("message", direction=direction.value, position=position)
        return Done(to=to, note="It is due now: a process that runs on this store tries it.")

    def ask_park(visit: Visit) -> View:
        whole = one_message(operations, visit)
        direction, position = place(visit)
        inbound = direction is Direction.INBOUND
        return Question(
            title=f"Park message {whole.seen.id}?",
            lines=[
                "It becomes a dead letter as soon as a process with its service reads it, and the messages behind it "
                "are delivered. The client gets a fault. You can redrive it later, also edited."
                if inbound
                else "It becomes a dead letter now, and the messages behind it are sent. You can redrive it later.",
            ],
            action="message-park",
            fields={"direction": direction.value, "position": str(position)},
            button="Park it",
            back=link("message", direction=direction.value, position=position),
        ).view()

    def park(visit: Visit) -> Done:
        direction, position = place(visit)
        operations.message_actions.park(direction, position, actor_of(visit), reason=reason_of(visit))
        if direction is Direction.OUTBOUND:
            return Done(to=link("letters"), note="Parked: it is a dead letter now.")
        return Done(to=link("services"), note="It is parked as soon as a process with its service reads it.")

    def pause(visit: Visit) -> Done:
        name = service_name(visit)
        operations.service_actions.pause(name, actor_of(visit), reason=reason_of(visit))
        return Done(to=link("service", name=name or NO_SERVICE), note="Paused: no handler of it is called from now on.")

    def resume(visit: Visit) -> Done:
        name = service_name(visit)
        operations.service_actions.resume(name, actor_of(visit), reason=reason_of(visit))
        return Done(to=link("service", name=name or NO_SERVICE), note="Resumed: what waits is delivered now.")

    site.action("message-retry", retry)
    site.question("message-park", ask_park)
    site.action("message-park", park)
    site.action("service-pause", pause)
    site.action("service-resume", resume)
