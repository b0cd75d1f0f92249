"""Waits for responses with futures: ``python -m samples.request_response.future_client URL [--listen]``.

A future lives as long as the process. Where the response matters after a restart, see `callback_client`.
"""

import sys

from mercury import ApplicationFault, Mercury
from samples.request_response.messages import OrderPlaced, PlaceOrder

url, *options = sys.argv[1:]
mercury = Mercury()
if "--listen" in options:
    mercury.listen()  # the server posts responses to us; else they come back on the connections of our requests
with mercury:
    shop = mercury.to(url)
    futures = [shop.request(PlaceOrder(item, 30), response=OrderPlaced) for item in ("tea", "coffee")]
    for future in futures:
        try:
            placed = future.result(timeout=30)
            print(f"{placed.count} {placed.item} ordered, {placed.left} left")
        except ApplicationFault as fault:
            print(f"refused: {fault.reason} ({fault.code})")
    shop.close()
    shop.wait(timeout=30)
