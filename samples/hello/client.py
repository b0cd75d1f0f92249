"""Sends three greetings to ``samples.hello.server`` and waits until the server has acknowledged them."""

import argparse
import sys

from mercury import ConfigurationError, Mercury
from samples.hello.messages import Greeting

parser = argparse.ArgumentParser(prog="python -m samples.hello.client", description=__doc__)
parser.add_argument("url", nargs="?", default="http://127.0.0.1:8000/services/hello", help="default: %(default)s")
parser.add_argument("--timeout", type=float, default=30, help="how long to wait, in seconds; default: %(default)s")
parser.add_argument("--store", default="memory:", help="sqlite:///hello.db outlives this process; default: %(default)s")


def main(url: str, timeout: float, store: str) -> int:
    with Mercury(store) as mercury:
        hello = mercury.to(url)
        for text in ("Good morning!", "Good day!", "Good evening!"):
            hello.send(Greeting(text))  # stored now, whether or not the server is up; delivered once, in this order
        hello.close()  # ends the sequence: the server can delete it
        # A store in memory is lost with the process, so wait. With a durable store the next start sends the rest.
        done = hello.wait(timeout)
        if done:
            print("delivered")
            return 0
        print(f"not delivered within {timeout:g} s: {done}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    options = parser.parse_args()
    try:
        sys.exit(main(**vars(options)))
    except ConfigurationError as error:
        parser.error(str(error))
