"""WSDLs of the service with the policy that a cell needs: the configuration of Metro, and of CXF in some cells."""

from __future__ import annotations

import hashlib
from pathlib import Path
from string import Template

from .cells import METRO, Cell

SOAP = {"1.1": "http://schemas.xmlsoap.org/wsdl/soap/", "1.2": "http://schemas.xmlsoap.org/wsdl/soap12/"}

#: Each message once and in order, as each version says it. WS-RM 1.0 has no words for it: Metro has an assertion of its
#: own, and CXF takes what its settings say.
RM10 = '<rm:RMAssertion xmlns:rm="http://schemas.xmlsoap.org/ws/2005/02/rm/policy"/>'
RM11 = (
    '<rm:RMAssertion xmlns:rm="http://docs.oasis-open.org/ws-rx/wsrmp/200702"><wsp:Policy><rm:DeliveryAssurance>'
    "<wsp:Policy><rm:ExactlyOnce/><rm:InOrder/></wsp:Policy></rm:DeliveryAssurance></wsp:Policy></rm:RMAssertion>"
)
ORDERED = '<m:Ordered xmlns:m="http://sun.com/2006/03/rm"/>'
MAKE_CONNECTION = '<mc:MCSupported xmlns:mc="http://docs.oasis-open.org/ws-rx/wsmc/200702"/>'


def describe(folder: Path, url: str, cell: Cell) -> Path:
    """Write the WSDL of a cell; returns the file."""
    assertions = RM11 if cell.rm == "1.1" else RM10 + (ORDERED if METRO in (cell.client, cell.server) else "")
    if cell.replies == "make-connection":
        assertions += MAKE_CONNECTION
    template = Template((Path(__file__).parent / "orders.wsdl").read_text())
    text = template.substitute(soap=SOAP[cell.soap], assertions=assertions, url=url)
    file = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.wsdl"
    file.write_text(text)
    return file
