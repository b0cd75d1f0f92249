"""The transports that are given to zeep; the only module that imports it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lxml import etree
from zeep.transports import AsyncTransport, Transport

from mercury.client.zeep.calls import Calls
from mercury.client.zeep.public import AsyncZeepTransport, ZeepTransport


class ReliableTransport(ZeepTransport, Transport):
    """See `ZeepTransport`."""

    def __init__(self, calls: Calls, operation_timeout: float | None, **options: Any) -> None:
        Transport.__init__(self, operation_timeout=operation_timeout, **options)
        self._calls = calls

    def load(self, url: str) -> bytes:
        """Load a document by zeep's transport, and read the operations if it is a WSDL."""
        data: bytes = Transport.load(self, url)
        self._calls.loaded(data)
        return data

    def post_xml(self, address: str, envelope: etree._Element, headers: Mapping[str, str]) -> Any:
        """Make a call for zeep. Parameters as for zeep's transport."""
        call = self._calls.read(address, envelope, headers)
        if call is None:
            return Transport.post_xml(self, address, envelope, headers)
        return self._calls.post(call, self.operation_timeout)


class ReliableAsyncTransport(AsyncZeepTransport, AsyncTransport):
    """See `AsyncZeepTransport`."""

    def __init__(self, calls: Calls, operation_timeout: float | None, **options: Any) -> None:
        AsyncTransport.__init__(self, operation_timeout=operation_timeout, **options)
        self._calls = calls
        self.operation_timeout = operation_timeout

    def load(self, url: str) -> bytes:
        """Load a document by zeep's transport, and read the operations if it is a WSDL."""
        data: bytes = AsyncTransport.load(self, url)
        self._calls.loaded(data)
        return data

    async def post_xml(self, address: str, envelope: etree._Element, headers: Mapping[str, str]) -> Any:
        """Make a call for zeep. Parameters as for zeep's transport."""
        call = self._calls.read(address, envelope, headers)
        if call is None:
            return await AsyncTransport.post_xml(self, address, envelope, headers)
        return await self._calls.apost(call, self.operation_timeout)

    async def aclose(self) -> None:
        """End the sequences when all messages have arrived, and close the HTTP clients."""
        try:
            await self.close()
        finally:
            self.wsdl_client.close()
            await AsyncTransport.aclose(self)
