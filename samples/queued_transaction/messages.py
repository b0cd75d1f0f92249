"""The messages: an order, and the server's confirmation."""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal


@dataclass(frozen=True)
class Order:
    number: int
    customer: str
    placed_on: date
    amount: Decimal
    #: None = not specified.
    express: bool | None
    deliver_after: datetime | None
    note: str | None
    #: The customer's text, up to a hundred thousand characters.
    body: str


@dataclass(frozen=True)
class Confirmation:
    order: int
    #: The server's arrival number of the order; earlier orders have lower ones.
    arrival: int
