"""New names in each message of a peer: the memory that they use is freed.

lxml keeps each name until the thread that parsed it ends, and refuses new names after some hundred megabytes. A test of
that takes too long, so these tests measure the memory of a process that parses 54 MB of names in one thread.
"""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from mercury.wire.own_thread import in_own_thread

pytest.importorskip("resource")

#: Prints how many bytes the process has grown by, after a beginning. ``read`` takes elements, one beside the other.
GROWTH = """
import resource
import sys
from dataclasses import dataclass
from mercury.wire import canonical, check_payload
from mercury.wire.mapping import Xml, from_xml, to_xml
from mercury.wsdl.contract import WsdlContract

@dataclass
class Note:
    text: str | None = None

@dataclass
class Raw:
    any: Xml

WSDL = '''<w:definitions xmlns:w="http://schemas.xmlsoap.org/wsdl/" xmlns:s="http://schemas.xmlsoap.org/wsdl/soap/"
  xmlns:t="urn:t" xmlns:x="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:t">
 <w:types><x:schema targetNamespace="urn:t" elementFormDefault="qualified"><x:element name="Any"><x:complexType>
  <x:sequence><x:any processContents="lax" minOccurs="0" maxOccurs="unbounded"/></x:sequence></x:complexType>
 </x:element></x:schema></w:types>
 <w:message name="m"><w:part name="p" element="t:Any"/></w:message>
 <w:portType name="p"><w:operation name="Any"><w:input message="t:m"/></w:operation></w:portType>
 <w:binding name="b" type="t:p"><s:binding style="document" transport="http://schemas.xmlsoap.org/soap/http"/>
  <w:operation name="Any"><s:operation soapAction="urn:t:Any"/></w:operation></w:binding>
 <w:service name="s"><w:port name="p" binding="t:b"><s:address location=""/></w:port></w:service>
</w:definitions>'''

def prepared():
    if sys.argv[1] in ("by schema", "zeep"):
        contract = WsdlContract(WSDL.encode())
        body = "<Any xmlns='urn:t'>%s</Any>"
        if sys.argv[1] == "by schema":
            return lambda text: contract.check((body % text).encode(), "{urn:t}Any")
        from mercury.wsdl.zeep_types import ZeepTypes
        types = ZeepTypes(contract)
        return lambda text: types.write(types.read(contract.check((body % text).encode(), "{urn:t}Any")), "{urn:t}Any")
    return {
        "values": lambda text: from_xml(f"<Note>{text}</Note>".encode(), Note),
        "raw": lambda text: to_xml(from_xml(f"<Raw><any>{text}</any></Raw>".encode(), Raw), "urn:t"),
        "sent": lambda text: check_payload(f"<a>{text}</a>"),
        "sent with an ID": lambda text: check_payload(f"<a xml:id='i'>{text}</a>"),
        "canonical": lambda text: canonical(f"<a>{text}</a>"),
    }[sys.argv[1]]

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

read, before = prepared(), 0
for document in range(70):
    if document == 10:
        before = peak()
    read("".join(f"<n{document}-{number}-{'y' * 900}/>" for number in range(1000)))
print(peak() - before)
"""


@pytest.mark.parametrize("kind", ["values", "raw", "sent", "sent with an ID", "canonical", "by schema", "zeep"])
def test_ever_new_names_in_documents_of_one_thread_leave_no_memory_behind(kind: str) -> None:
    if kind == "zeep":
        pytest.importorskip("zeep")
    done = subprocess.run([sys.executable, "-c", GROWTH, kind], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) < 27_000_000


def test_result_and_error_of_a_function_in_its_own_thread_are_its_callers() -> None:
    threads = []

    def fail() -> None:
        threads.append(threading.current_thread())
        raise ValueError("no")

    assert in_own_thread(lambda: 7) == 7
    with pytest.raises(ValueError, match=r"^no$"):
        in_own_thread(fail)
    assert threads[0] is not threading.current_thread()
    assert not threads[0].is_alive()
