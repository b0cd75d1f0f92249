"""Sends greetings: ``python -m samples.hello.client http://127.0.0.1:8000/services/hello``."""

import sys

from mercury import Mercury
from samples.hello.messages import Greeting

with Mercury() as mercury:
    hello = mercury.to(sys.argv[1])
    for text in ("Good morning!", "Good day!", "Good evening!"):
        hello.send(Greeting(text))  # stored now, whether or not the server is up; delivered once, in this order
    hello.close()  # no more will come: the server need not remember the sequence
    # This store is in memory and ends with the process, so wait; a durable one would carry on at the next start.
    done = hello.wait(timeout=30)
    print("delivered" if done else f"not delivered: {mercury.trouble_with(hello.endpoint)}")
