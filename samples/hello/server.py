"""Takes greetings: ``mercury serve samples.hello.server:app``."""

from mercury import Mercury, Service
from samples.hello.messages import Greeting

service = Service("hello")


@service.operation
def greet(greeting: Greeting) -> None:  # nothing is returned: a one-way operation
    print(greeting.text, flush=True)


# Messages live as long as this process; with Mercury("sqlite:///server.db") they outlive it.
app = Mercury("memory:").app(service)
