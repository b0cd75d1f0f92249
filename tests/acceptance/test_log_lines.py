"""Texts from peers cannot forge a line of the log, whichever formatter the application uses."""

from __future__ import annotations

import http.client
import logging

import pytest

from mercury import Mercury, Service
from tests.acceptance.app import Note
from tests.acceptance.processes import PATIENCE
from tests.acceptance.test_endpoint import SOAP11, TYPES

FAULT = f"""<s:Envelope xmlns:s="{SOAP11}"><s:Body><s:Fault><faultcode>s:Server</faultcode>
<faultstring>so it is\n2026-01-01 INFO mercury.engine: made up</faultstring></s:Fault></s:Body></s:Envelope>"""


def test_text_of_a_fault_is_quoted(caplog: pytest.LogCaptureFixture) -> None:
    service = Service("desk")

    @service.operation
    def note(what: Note) -> None: ...

    with caplog.at_level(logging.INFO), Mercury("memory:") as mercury:
        connection = http.client.HTTPConnection(mercury.listen(service).removeprefix("http://"), timeout=PATIENCE)
        connection.request("POST", "/services/desk", FAULT.encode(), {"Content-Type": TYPES[SOAP11]})
        connection.getresponse().read()
        connection.close()
    said = [record.getMessage() for record in caplog.records if "made up" in record.getMessage()]
    assert len(said) == 1
    assert "\n" not in said[0]
