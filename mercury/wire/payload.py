"""Checks the payload that an application sends, and computes the canonical form of XML."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from lxml import etree

from mercury.errors import PayloadError
from mercury.wire import ns
from mercury.wire.cut import cut
from mercury.wire.envelope import Payload
from mercury.wire.media import to_utf8
from mercury.wire.ns import clark
from mercury.wire.own_thread import in_own_thread
from mercury.wire.scan import DEFAULT_LIMITS, Limits, MessageRefused, Scanner, limits_of_body
from mercury.wire.xml_parser import closed_parser

#: A namespace declaration that libxml2 accepts if expat accepts it.
_DECLARED = re.compile(
    rb"xmlns(?::[^\s=\"'<>]+)?\s*=\s*[\"'](?:|urn:[A-Za-z0-9._/:-]+|https?://[A-Za-z0-9.-]+(?:/[A-Za-z0-9._/-]*#?)?)[\"']"
)

_FAULTS = frozenset({clark(ns.SOAP11, "Fault"), clark(ns.SOAP12, "Fault")})


def check_payload(xml: bytes | str, *, limits: Limits = DEFAULT_LIMITS) -> Payload:
    """Check an element that is to be sent in a Body, or as a header block.

    The element must be accepted by a peer: within the limits, which are those of `limits_of_body`, one well-formed
    element with all its prefixes declared, no DOCTYPE, no processing instruction. The result is the element's bytes in
    UTF-8, without an XML declaration and without comments or blanks before and after the element; nothing else changes.

    libxml2 must accept the element too, because peers may use it. It is stricter than expat about namespaces and
    ``xml:id``.

    :param xml: text, or bytes in the encoding that their XML declaration names.
    :raises PayloadError: the element is not like this; the text gives the reason.
    """
    try:
        data = to_utf8(xml.encode(), "utf-8") if isinstance(xml, str) else to_utf8(xml)
        root = Scanner(data, limits, levels=1).run()
        element = cut(data, root)
        if _libxml2_may_refuse(element):
            in_own_thread(lambda: _parse(element))
    except (MessageRefused, etree.LxmlError) as error:
        raise PayloadError(f"the payload cannot be sent: {error}") from error
    except UnicodeError as error:
        raise PayloadError("the payload cannot be sent: it has characters that are none") from error
    return Payload(element, root.name, root.name in _FAULTS)


def check_headers(headers: Iterable[bytes], payload: Payload, *, limits: Limits = DEFAULT_LIMITS) -> tuple[bytes, ...]:
    """Check the header blocks that an application sends with a payload. The result is their XML; see `check_payload`.

    :param payload: one that was checked.
    :param limits: those of messages. They hold for the header blocks and the payload together.
    :raises PayloadError: a header block cannot be sent, or together they exceed a limit.
    """
    limits = limits_of_body(limits)
    given = tuple(islice(headers, limits.max_headers + 1))
    if len(given) > limits.max_headers:
        raise PayloadError(f"the message cannot be sent: it has more than {limits.max_headers} header blocks")
    blocks = tuple(check_payload(header, limits=limits).xml for header in given)
    if blocks:
        together = b"".join((b"<a>", *blocks, payload.xml, b"</a>"))
        around = {"max_bytes": len(b"<a></a>"), "max_depth": 1, "max_elements": 1}
        wider = {name: getattr(limits, name) + more for name, more in around.items()}
        try:
            Scanner(together, replace(limits, **wider), levels=1).run()
        except MessageRefused as error:
            raise PayloadError(f"the payload cannot be sent with its header blocks: {error}") from error
    return blocks


def canonical(xml: bytes | str, *, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Inclusive canonical XML 1.0 with comments. Two elements with the same meaning have the same canonical form.

    :raises PayloadError: `check_payload` refuses the XML, or it has a relative namespace, which has no canonical form.
    """
    payload = check_payload(xml, limits=limits)
    try:
        return in_own_thread(lambda: etree.tostring(_parse(payload.xml), method="c14n"))
    except (etree.LxmlError, ValueError) as error:
        raise PayloadError(f"{payload.name} has no canonical form: {error}") from error


def _libxml2_may_refuse(xml: bytes) -> bool:
    """Whether libxml2 may refuse XML that expat accepts: for a namespace that is not a URI, or an ``xml:id``."""
    return b"xml:id" in xml or xml.count(b"xmlns") != len(_DECLARED.findall(xml))


def _parse(xml: bytes) -> etree._Element:
    # The scanner has checked the limits and refused a DTD, so the limits of libxml2 are not needed.
    return etree.fromstring(xml, closed_parser(huge_tree=True))
