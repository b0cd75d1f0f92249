"""A shop that takes orders, and a warehouse that ships them: ``mercury serve samples.request_response.server:app``."""

import os

from mercury import ApplicationFault, Mercury, Service, Transaction
from samples.request_response.messages import OrderPlaced, PlaceOrder, Ship

STOCK = {"tea": 100, "coffee": 20}

# The server posts responses to clients on this machine only, never to another address that a client names.
mercury = Mercury("memory:", allow=["http://127.0.0.1:*"])
shop, warehouse = Service("shop"), Service("warehouse")

# The warehouse is in this process here; it could be anywhere.
to_warehouse = mercury.to(os.environ.get("WAREHOUSE_URL", "http://127.0.0.1:8000/services/warehouse"))


@shop.operation
def place_order(order: PlaceOrder, tx: Transaction) -> OrderPlaced:
    # This transaction consumes the order and stores the response. The message to the warehouse is sent after its
    # commit.
    to_warehouse.send(Ship(order.item, order.count), tx=tx)
    left = STOCK.get(order.item, 0) - order.count
    if left < 0:
        # The client gets the fault instead of a response. The handler's work is rolled back, so nothing is shipped.
        raise ApplicationFault(f"there is not enough {order.item}", code="OutOfStock")
    return OrderPlaced(order.item, order.count, left)


@warehouse.operation
def ship(what: Ship) -> None:
    print(f"shipping {what.count} {what.item}", flush=True)


app = mercury.app(shop, warehouse)
