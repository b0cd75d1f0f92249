"""The service that the zeep client calls, and its WSDL: ``mercury serve samples.zeep_client.server:app``."""

from dataclasses import dataclass

from mercury import ApplicationFault, Mercury, Service

squares = Service("squares", namespace="urn:mercury:samples:squares")


@dataclass
class Note:
    number: int


@dataclass
class Ask:
    number: int


@dataclass
class Answer:
    square: int


@squares.operation("Note")
def note(what: Note) -> None:
    print("noted", what.number, flush=True)


@squares.operation("Ask")
def ask(what: Ask) -> Answer:
    if what.number < 0:
        raise ApplicationFault("not below zero", code="Negative")
    return Answer(what.number**2)


app = Mercury("memory:").app(squares)  # its WSDL is at /services/squares?wsdl
