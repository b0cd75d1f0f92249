"""The validation of bodies by the schema of a WSDL, and its cost."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from mercury.errors import PayloadError
from mercury.wsdl.contract import AT_ONCE, WsdlContract

DATA = Path(__file__).resolve().parents[2] / "data"
NS = "urn:mercury:orders"
MANY = '<xs:element name="qty" type="xs:int" maxOccurs="unbounded"/>'


def contract() -> WsdlContract:
    """Orders with any number of quantities."""
    written = (DATA / "wsdl/orders.wsdl").read_text()
    return WsdlContract(written.replace('<xs:element name="qty" type="xs:int"/>', MANY).encode())


def place(quantities: str) -> bytes:
    return f'<Place xmlns="{NS}"><sku>A1</sku>{quantities}</Place>'.encode()


def seconds(orders: WsdlContract, xml: bytes) -> float:
    """Of processor time for one check, which is made in a thread of its own."""
    start = time.process_time()
    with contextlib.suppress(PayloadError):
        orders.check(xml, f"{{{NS}}}Place")
    return time.process_time() - start


def test_body_with_an_error_in_each_element_costs_no_more_than_a_valid_one() -> None:
    orders = contract()
    valid = max(seconds(orders, place("<qty>1</qty>" * 40_000)) for _ in range(2))
    assert seconds(orders, place("<qty>x</qty>" * 40_000)) < 5 * valid  # each with its path: 100 times
    attributes = " ".join(f'a{number}=""' for number in range(60))
    assert seconds(orders, place(f"<qty {attributes}>1</qty>" * 4_000)) < 10 * valid


@pytest.mark.parametrize(
    ("xml", "reason"),
    [
        (place("<qty>1</qty>" * AT_ONCE + "<qty>x</qty>"), "'x' is not a valid value of the atomic type 'xs:int'"),
        (place("<qty>1</qty>" * AT_ONCE)[:-4], "not well-formed XML: expected '>'"),
        (place(""), "Missing child element(s). Expected is ( {urn:mercury:orders}qty )"),
    ],
)
def test_error_at_the_end_of_a_large_body_is_found(xml: bytes, reason: str) -> None:
    with pytest.raises(PayloadError) as caught:
        contract().check(xml, f"{{{NS}}}Place")
    assert reason in str(caught.value)


@pytest.mark.parametrize("piece", ["a&amp;", "a&#13;", "x<!---->"])
def test_text_of_many_pieces_costs_no_more_than_its_length(piece: str) -> None:
    orders = contract()

    def order(times: int) -> bytes:
        return place("<qty>1</qty>").replace(b"A1", piece.encode() * times)

    assert orders.check(order(300_000), f"{{{NS}}}Place") is not None
    assert seconds(orders, order(600_000)) < 8 * seconds(orders, order(150_000))  # its square: 16 times
    with pytest.raises(PayloadError, match="'x' is not a valid value"):
        orders.check(order(300_000).replace(b">1<", b">x<"), f"{{{NS}}}Place")


def test_long_text_that_is_not_valid_is_found() -> None:
    with pytest.raises(PayloadError, match=r"^Element .*qty': '&&&&"):
        contract().check(place("<qty>1</qty><qty>" + "&amp;" * 300_000 + "</qty>"), f"{{{NS}}}Place")


def test_text_between_the_elements_of_a_large_body_is_found() -> None:
    with pytest.raises(PayloadError, match="Character content other than whitespace is not allowed"):
        contract().check(place("<qty>1</qty>" + " &amp;" * 300_000), f"{{{NS}}}Place")
    assert contract().check(place("<qty>1</qty>" + " &#10;" * 300_000), f"{{{NS}}}Place") is not None
