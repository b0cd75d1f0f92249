"""Takes responses with a named callback: ``python -m samples.request_response.callback_client URL [--listen]``.

The name is stored with each request. With a durable store, a process that was started anew finds its callback by it.
"""

import sys

from mercury import ApplicationFault, Mercury, MessageContext
from samples.request_response.messages import OrderPlaced, PlaceOrder

url, *options = sys.argv[1:]
mercury = Mercury()


@mercury.callback("orders")
def answered(answer: OrderPlaced | ApplicationFault, context: MessageContext) -> None:
    # The correlation is the application's own; it stays with the request and comes with the response.
    if isinstance(answer, ApplicationFault):
        print(f"{context.correlation} refused: {answer.reason} ({answer.code})", flush=True)
    else:
        print(f"{context.correlation} placed: {answer.left} {answer.item} left", flush=True)


if "--listen" in options:
    mercury.listen()  # the server posts responses to us; else they come back on the connections of our requests
with mercury:
    shop = mercury.to(url)
    shop.request_with_callback(PlaceOrder("tea", 30), "orders", correlation="order 1")
    shop.request_with_callback(PlaceOrder("coffee", 30), "orders", correlation="order 2")
    shop.close()
    shop.wait(timeout=30)  # until both responses are consumed
