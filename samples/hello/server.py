"""Receives greetings: ``mercury serve samples.hello.server:app``."""

from mercury import Mercury, Service
from samples.hello.messages import Greeting

service = Service("hello")


@service.operation
def greet(greeting: Greeting) -> None:  # nothing is returned: a one-way operation
    print(greeting.text, flush=True)


# Messages are stored where the settings say, or else in the file mercury.db.
app = Mercury().app(service)
