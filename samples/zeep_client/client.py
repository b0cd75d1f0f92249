"""A script for zeep, and the one line that makes it reliable: the transport.

It calls ``samples.zeep_client.server``, or any peer whose WSDL has a one-way operation Note and an operation Ask with a
response, both with a number.
"""

import argparse
import sys

import zeep
from zeep.exceptions import Fault

from mercury import ConfigurationError, Mercury, MercuryError

parser = argparse.ArgumentParser(prog="python -m samples.zeep_client.client", description=__doc__)
parser.add_argument(
    "wsdl", nargs="?", default="http://127.0.0.1:8000/services/squares?wsdl", help="URL or file; default: %(default)s"
)
parser.add_argument("--store", default="memory:", help="where messages wait, for example sqlite:///squares.db")
parser.add_argument("--timeout", type=float, default=30, help="how long to wait, in seconds; default: %(default)s")


def script(client: zeep.Client) -> None:
    """The unchanged script: it uses zeep, and no name of Mercury."""
    for number in (1, 2, 3):
        client.service.Note(number=number)
    for number in (7, -1):
        try:
            print(f"the square of {number} is {client.service.Ask(number=number)}")
        except Fault as fault:
            print(f"no square of {number}: {fault.message}")


def main(wsdl: str, store: str, timeout: float) -> int:
    with Mercury(store) as mercury:
        transport = mercury.zeep_transport(operation_timeout=timeout)
        try:
            with zeep.Client(wsdl, transport=transport) as client:  # type: ignore[no-untyped-call]  # zeep has no types
                script(client)
            done = transport.wait(timeout)
        except (OSError, MercuryError) as error:  # the WSDL cannot be loaded, a response does not come in time, ...
            print(f"not answered: {error}", file=sys.stderr)
            return 1
        print(done, file=sys.stdout if done else sys.stderr)
        return 0 if done else 1


if __name__ == "__main__":
    options = parser.parse_args()
    try:
        sys.exit(main(**vars(options)))
    except ConfigurationError as error:
        parser.error(str(error))
