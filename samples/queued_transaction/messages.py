"""What travels: an order, and what the server says when it has it."""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal


@dataclass(frozen=True)
class Order:
    number: int
    customer: str
    placed_on: date
    amount: Decimal
    #: None = the customer did not say.
    express: bool | None
    deliver_after: datetime | None
    note: str | None
    #: What the customer wrote, up to a hundred thousand characters.
    body: str


@dataclass(frozen=True)
class Confirmation:
    order: int
    #: The server's number for it: what it received before has a lower one.
    arrival: int
