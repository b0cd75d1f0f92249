"""The server: ``python -m tests.chaos.programs.server SETUP``. Its handler inserts each order that it receives."""

from __future__ import annotations

import sys

from mercury import MessageContext, Service
from tests.chaos.kinds import Mode
from tests.chaos.programs.messages import Confirmation, Order
from tests.chaos.programs.setup import SERVICE, Place, Setup, serve
from tests.chaos.programs.tables import RECEIVED_ORDERS


def service(place: Place) -> Service:
    """The service, with or without responses as the mode says."""
    orders = Service(SERVICE)

    def note(order: Order, context: MessageContext) -> None:
        place.insert(context.transaction, RECEIVED_ORDERS, order)

    def confirm(order: Order, context: MessageContext) -> Confirmation:
        note(order, context)
        return Confirmation(order.id, order.item, order.quantity)

    orders.operation("Order")(note if place.setup.mode is Mode.IN_ONLY else confirm)
    return orders


def main(setup: Setup) -> None:
    place = Place(setup)
    app = place.mercury.app(service(place))
    serve(app, setup.port, lambda: None)
    place.report()


if __name__ == "__main__":
    main(Setup.load(sys.argv[1]))
