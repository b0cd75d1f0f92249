"""The orders: the same for the same seed, with texts that are difficult to store and to transport."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

CUSTOMERS = (
    *("Zoë Åkesson", "Łukasz Wiśniewski", "Nguyễn Thị Hồng", "山田 花子", "김민준", "محمد الأمين", "Έλλη Παπαδοπούλου"),
    *("O'Brien & Sons", '"Quick" <Couriers>', "Đorđe Šćekić", "Иван Жуков", "אברהם לוי", "José Núñez Ibáñez", "李小龙"),
    *(
        "Müller-Lüdenscheidt GmbH & Co. KG",
        "Þórdís Ævarsdóttir",
        "சுப்பிரமணியம்",
        "Smith",
        "e\u0301 (decomposed) \U0001f4e6",
    ),
)
NOTES = (
    *(
        None,
        None,
        None,
        "",
        " leave it at the door ",
        "two\nlines",
        "tab\there",
        "return\r\nand line",
        "]]> & <!-- -->",
    ),
    *("für Opa 🎁", "floor 3½, ring twice", "NULL", "\u00a0between no-break spaces\u00a0", "100 % cotton; 5 < 6 > 4"),
)
WORDS = (
    *("pallet", "Grüße", "crate", "заказ", "screws", "10 mm", "注文", "steel", "&", "<urgent>", "blue", "façade", "\n"),
    *("tea", "coffee", "€ 4,20", "as discussed", "🧾", "last week", "—", "\t", "n° 7", "thanks!"),
)
#: The shortest and the longest body, in characters.
SHORTEST, LONGEST = 100, 100_000
FIRST_DAY = date(2020, 2, 29)


def orders(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Rows of the table ``orders``."""
    chance = random.Random(f"orders {seed}")
    for number in range(1, count + 1):
        placed_on = FIRST_DAY + timedelta(days=chance.randrange(2500))
        yield {
            "number": number,
            "customer": chance.choice(CUSTOMERS),
            "placed_on": placed_on,
            "amount": Decimal(round(math.exp(chance.uniform(0, 20)))) / 100,
            "express": chance.choice((None, True, False)),
            "deliver_after": chance.choice((None, _moment(placed_on, chance))),
            "note": chance.choice(NOTES),
            "body": _body(chance),
        }


def _moment(day: date, chance: random.Random) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(microseconds=chance.randrange(10**12))


def _body(chance: random.Random) -> str:
    """A body; most are short, few are long."""
    length = round(math.exp(chance.uniform(math.log(SHORTEST), math.log(LONGEST))))
    paragraph = " ".join(chance.choice(WORDS) for _ in range(200))
    return (paragraph * (length // len(paragraph) + 1))[:length]
