"""Requests that a proxy and the server could read differently are refused (raw sockets)."""

from __future__ import annotations

import pytest

from tests.acceptance.test_endpoint import read_reply
from tests.acceptance.test_http_limits import closed, connect, served


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param("GET /healthz HTTP/1.1\r\nHost: x\r\n", 200, id="one host"),
        pytest.param("GET /healthz HTTP/1.1\r\nHost:\r\n", 200, id="an empty host"),
        pytest.param("GET /healthz HTTP/1.1\r\nHost: [::1]:80\r\n", 200, id="an address"),
        pytest.param("GET /healthz HTTP/1.0\r\n", 200, id="1.0 knows no host"),
        pytest.param("GET /healthz HTTP/1.1\r\nA: b\r\n", 400, id="no host"),
        pytest.param("GET /healthz HTTP/1.1\r\nHost: x\r\nhost: x\r\n", 400, id="two hosts"),
        pytest.param("GET /healthz HTTP/1.0\r\nHost: x\r\nHost: y\r\n", 400, id="two hosts in 1.0"),
        pytest.param("GET /healthz HTTP/1.1\r\nHost: [::1\r\n", 400, id="half an address"),
        pytest.param("GET /healthz HTTP/1.1\r\nHost: a@b\r\n", 400, id="no name of a host"),
        pytest.param("GET /healthz HTTP/1.1\r\nUpgrade: h2c\r\nConnection: upgrade\r\n", 400, id="an upgrade, no host"),
        pytest.param("GET /healthz HTTP/0.9\r\nHost: x\r\n", 505, id="0.9"),
        pytest.param("GET /healthz HTTP/2.0\r\nHost: x\r\n", 505, id="2.0"),
        pytest.param("GET http://x/healthz HTTP/1.1\r\nHost: X:80\r\n", 200, id="a whole URL"),
        pytest.param("GET http://evil.example/healthz HTTP/1.1\r\nHost: x\r\n", 400, id="a URL of another host"),
        pytest.param("GET http://u:p@x/healthz HTTP/1.1\r\nHost: x\r\n", 400, id="a URL with a user"),
        pytest.param("GET ftp://x/healthz HTTP/1.1\r\nHost: x\r\n", 400, id="a URL of ftp"),
        pytest.param("GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n", 501, id="gzip"),
        pytest.param("GET /healthz HTTP/1.0\r\nTransfer-Encoding: chunked\r\n", 400, id="chunked in 1.0"),
        pytest.param("GET /healthz\r\n", 505, id="a simple request"),
    ],
)
def test_head_with_other_than_one_host_or_of_another_version_is_refused(head: str, status: int) -> None:
    with served() as address, connect(address) as peer:
        peer.sendall(f"{head}\r\n".encode())
        assert read_reply(peer).status == status
        if status != 200:
            assert closed(peer)


@pytest.mark.parametrize(("size", "status"), [(b"4", 405), (b"4 ", 400), (b"4\t", 400)])
def test_request_with_spaces_after_the_size_of_a_chunk_is_refused(size: bytes, status: int) -> None:
    with served() as address, connect(address) as peer:
        head = b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        peer.sendall(head + size + b"\r\n<a/>\r\n0\r\n\r\n")
        assert read_reply(peer).status == status


def test_path_with_a_slash_behind_it_is_not_redirected() -> None:
    with served() as address, connect(address) as peer:
        peer.sendall(b"POST /mercury/responses/ HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n")
        assert read_reply(peer).status == 404
