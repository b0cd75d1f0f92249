"""Not a rival but a floor: a SOAP envelope with the headers of WS-RM for each row, and nothing of the protocol else.

One connection, one row a request, a bare ASGI callable, one statement and one commit a row.
"""

from benchmarks.rivals.outbox_table import CLIENT_TABLES, SERVER_TABLES, enqueue  # noqa: F401
from benchmarks.rivals.settings import CLIENT, PORT, SERVER

# --- user code begin
# isort: split
import http.client
import time

import psycopg
import uvicorn
from lxml import etree

from benchmarks.rivals.outbox_table import DELETE, POLL, TAKE, WAITING

SOAP = "http://www.w3.org/2003/05/soap-envelope"
ADDRESSING = "http://www.w3.org/2005/08/addressing"
RM = "http://docs.oasis-open.org/ws-rx/wsrm/200702"
ROWS = "urn:rows"
PREFIXES = {"s": SOAP, "a": ADDRESSING, "r": RM}
MEDIA_TYPE = "application/soap+xml; charset=utf-8"
PARSER = etree.XMLParser(resolve_entities=False, no_network=True)
ANSWER = (
    f'<s:Envelope xmlns:s="{SOAP}"><s:Header><r:SequenceAcknowledgement xmlns:r="{RM}"><r:Identifier>%s</r:Identifier>'
    '<r:AcknowledgementRange Lower="1" Upper="%s"/></r:SequenceAcknowledgement></s:Header><s:Body/></s:Envelope>'
)


def write(identifier, number, message_id, row_id, text):
    envelope = etree.Element(f"{{{SOAP}}}Envelope", nsmap=PREFIXES)
    header = etree.SubElement(envelope, f"{{{SOAP}}}Header")
    etree.SubElement(header, f"{{{ADDRESSING}}}To").text = f"http://127.0.0.1:{PORT}/rows"
    etree.SubElement(header, f"{{{ADDRESSING}}}Action").text = f"{ROWS}/Put"
    etree.SubElement(header, f"{{{ADDRESSING}}}MessageID").text = f"urn:uuid:{message_id}"
    sequence = etree.SubElement(header, f"{{{RM}}}Sequence", {f"{{{SOAP}}}mustUnderstand": "true"})
    etree.SubElement(sequence, f"{{{RM}}}Identifier").text = identifier
    etree.SubElement(sequence, f"{{{RM}}}MessageNumber").text = str(number)
    row = etree.SubElement(etree.SubElement(envelope, f"{{{SOAP}}}Body"), f"{{{ROWS}}}Put", nsmap={None: ROWS})
    etree.SubElement(row, f"{{{ROWS}}}id").text = str(row_id)
    etree.SubElement(row, f"{{{ROWS}}}text").text = text
    return etree.tostring(envelope)


def relay():
    database = psycopg.connect(CLIENT)
    server = http.client.HTTPConnection("127.0.0.1", PORT)
    number = 0
    while True:
        rows = database.execute(WAITING).fetchall()
        try:
            for _, message_id, row_id, text in rows:
                number += 1
                body = write("urn:sequence", number, message_id, row_id, text)
                server.request("POST", "/rows", body, {"Content-Type": MEDIA_TYPE})
                answer = etree.fromstring(server.getresponse().read(), PARSER)
                if int(answer[0][0][1].get("Upper")) != number:
                    raise http.client.HTTPException("not acknowledged")
        except (OSError, http.client.HTTPException):
            database.rollback()
            server.close()
            time.sleep(0.2)
            continue
        if rows:
            database.execute(DELETE, ([row[0] for row in rows],))
        database.commit()
        if not rows:
            time.sleep(POLL)


database = None


async def app(_scope, receive, send):
    global database
    body, more = b"", True
    while more:
        event = await receive()
        body += event.get("body", b"")
        more = event.get("more_body", False)
    database = database or await psycopg.AsyncConnection.connect(SERVER, autocommit=True)
    header, content = etree.fromstring(body, PARSER)
    sequence = header.find(f"{{{RM}}}Sequence")
    message_id = header.findtext(f"{{{ADDRESSING}}}MessageID").removeprefix("urn:uuid:")
    await database.execute(TAKE, (message_id, int(content[0][0].text), content[0][1].text))
    answer = (ANSWER % (sequence[0].text, sequence[1].text)).encode()
    fields = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": answer})


def server():
    config = {"loop": "uvloop", "http": "httptools", "access_log": False, "log_level": "warning", "lifespan": "off"}
    uvicorn.run(app, port=PORT, **config)


# --- user code end
ROLES = {"server": server, "relay": relay}
