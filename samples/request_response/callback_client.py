"""Orders tea and coffee at ``samples.request_response.server`` and receives the responses with a named callback.

The name is stored with each request. With a durable store, a restarted process finds the callback by it.
"""

import argparse
import sys

from mercury import ApplicationFault, ConfigurationError, Mercury, MessageContext
from samples.request_response.messages import OrderPlaced, PlaceOrder

parser = argparse.ArgumentParser(prog="python -m samples.request_response.callback_client", description=__doc__)
parser.add_argument("url", nargs="?", default="http://127.0.0.1:8000/services/shop", help="default: %(default)s")
parser.add_argument("--listen", action="store_true", help="have the responses posted here instead of fetching them")
parser.add_argument("--timeout", type=float, default=30, help="how long to wait, in seconds; default: %(default)s")


def answered(answer: OrderPlaced | ApplicationFault, context: MessageContext) -> None:
    # The correlation is the application's own; it stays with the request and comes with the response.
    if isinstance(answer, ApplicationFault):
        print(f"{context.correlation} refused: {answer.reason} ({answer.code})", flush=True)
    else:
        print(f"{context.correlation} placed: {answer.left} {answer.item} left", flush=True)


def main(url: str, listen: bool, timeout: float) -> int:
    mercury = Mercury("memory:")
    mercury.callback("orders")(answered)  # before Mercury starts; can also be used as a decorator
    if listen:
        mercury.listen()  # the server posts responses here; otherwise they come in the HTTP replies to requests
    with mercury:
        shop = mercury.to(url)
        shop.request_with_callback(PlaceOrder("tea", 30), "orders", correlation="order 1")
        shop.request_with_callback(PlaceOrder("coffee", 30), "orders", correlation="order 2")
        shop.close()
        done = shop.wait(timeout)  # until both responses are consumed
        if not done.settled:
            print(f"not answered within {timeout:g} s: {done}", file=sys.stderr)
        dead = mercury.dead_letters()
        for letter in dead:
            print(f"{letter.correlation} failed: {letter.reason} ({letter.certainty.value})", file=sys.stderr)
        return 0 if done and not dead else 1


if __name__ == "__main__":
    options = parser.parse_args()
    try:
        sys.exit(main(**vars(options)))
    except ConfigurationError as error:
        parser.error(str(error))
