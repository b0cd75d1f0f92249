"""Orders tea and coffee at ``samples.request_response.server`` and waits for the responses with futures.

A future is lost with the process. For responses that matter after a restart, see ``callback_client``.
"""

import argparse
import sys

from mercury import ApplicationFault, ConfigurationError, Mercury, MercuryError
from samples.request_response.messages import OrderPlaced, PlaceOrder

parser = argparse.ArgumentParser(prog="python -m samples.request_response.future_client", description=__doc__)
parser.add_argument("url", nargs="?", default="http://127.0.0.1:8000/services/shop", help="default: %(default)s")
parser.add_argument("--listen", action="store_true", help="have the responses posted here instead of fetching them")
parser.add_argument("--timeout", type=float, default=30, help="how long to wait, in seconds; default: %(default)s")


def main(url: str, listen: bool, timeout: float) -> int:
    mercury = Mercury("memory:")
    if listen:
        mercury.listen()  # the server posts responses here; otherwise they come in the HTTP replies to requests
    with mercury:
        shop = mercury.to(url)
        futures = [shop.request(PlaceOrder(item, 30), response=OrderPlaced) for item in ("tea", "coffee")]
        for future in futures:
            try:
                placed = future.result(timeout)
                print(f"{placed.count} {placed.item} ordered, {placed.left} left")
            except ApplicationFault as fault:  # an answer too
                print(f"refused: {fault.reason} ({fault.code})")
            except (TimeoutError, MercuryError) as error:
                print(f"no answer: {error}", file=sys.stderr)
                return 1
        shop.close()
        done = shop.wait(timeout)
        if not done:
            print(f"it is not certain that everything arrived: {done}", file=sys.stderr)
        return 0 if done else 1


if __name__ == "__main__":
    options = parser.parse_args()
    try:
        sys.exit(main(**vars(options)))
    except ConfigurationError as error:
        parser.error(str(error))
