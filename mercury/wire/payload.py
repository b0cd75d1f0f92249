"""What an application hands over to be sent, and comparing XML."""

from __future__ import annotations

import re

from lxml import etree

from mercury.errors import PayloadError
from mercury.wire import ns
from mercury.wire.cut import cut
from mercury.wire.envelope import Payload
from mercury.wire.media import to_utf8
from mercury.wire.ns import clark
from mercury.wire.own_thread import in_own_thread
from mercury.wire.scan import DEFAULT_LIMITS, Limits, MessageRefused, Scanner
from mercury.wire.xml_parser import closed_parser

#: A namespace declaration that libxml2 takes if expat does.
_DECLARED = re.compile(
    rb"xmlns(?::[^\s=\"'<>]+)?\s*=\s*[\"'](?:|urn:[A-Za-z0-9._/:-]+|https?://[A-Za-z0-9.-]+(?:/[A-Za-z0-9._/-]*#?)?)[\"']"
)

_FAULTS = frozenset({clark(ns.SOAP11, "Fault"), clark(ns.SOAP12, "Fault")})


def check_payload(xml: bytes | str, *, limits: Limits = DEFAULT_LIMITS) -> Payload:
    """Check an element that is to travel in a Body.

    It has to be what a peer with these limits would accept: one well-formed element with all its prefixes declared,
    no DOCTYPE, no processing instruction. Its bytes stay as they are, but for the encoding: UTF-8, without an XML
    declaration and without what stands around the element.

    It also has to be XML for libxml2, which is stricter than expat about namespaces and ``xml:id``: what reads it at
    the other end may well be built on that.

    :param xml: bytes in the encoding that they declare themselves, or text.
    :raises PayloadError: it is not that; the text says what is wrong.
    """
    try:
        data = to_utf8(xml.encode(), "utf-8") if isinstance(xml, str) else to_utf8(xml)
        root = Scanner(data, limits, levels=1).run()
        element = cut(data, root)
        if _doubtful(element):
            in_own_thread(lambda: _parse(element))
    except (MessageRefused, etree.LxmlError) as error:
        raise PayloadError(f"the payload cannot be sent: {error}") from error
    except UnicodeError as error:
        raise PayloadError("the payload cannot be sent: it has characters that are none") from error
    return Payload(element, root.name, root.name in _FAULTS)


def canonical(xml: bytes | str, *, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Inclusive canonical XML 1.0, comments included: two elements that say the same are equal in it.

    :raises PayloadError: not XML that could be sent, or with a relative namespace, which has no canonical form.
    """
    payload = check_payload(xml, limits=limits)
    try:
        return in_own_thread(lambda: etree.tostring(_parse(payload.xml), method="c14n"))
    except (etree.LxmlError, ValueError) as error:
        raise PayloadError(f"{payload.name} has no canonical form: {error}") from error


def _doubtful(xml: bytes) -> bool:
    """Whether libxml2 may refuse what expat has taken: for a namespace that is no URI, or an ``xml:id``."""
    return b"xml:id" in xml or xml.count(b"xmlns") != len(_DECLARED.findall(xml))


def _parse(xml: bytes) -> etree._Element:
    # Only what has been scanned comes here, so the limits are ours, and there is no DTD to speak of.
    return etree.fromstring(xml, closed_parser(huge_tree=True))
