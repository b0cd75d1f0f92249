"""deploy/nginx/mercury.conf, in Debian's nginx, in front of `mercury serve`."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mercury import Mercury, Peer
from mercury.service.paths import RESPONSES, SERVICES
from mercury.settings import HttpSettings, Settings
from tests.acceptance.processes import PATIENCE, ROOT, Running, Serving, eventually, get
from tests.deploy.app import Ask, Said
from tests.ports import free_port

CONFIGURATION = ROOT / "deploy/nginx/mercury.conf"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
SECRET = "a-secret-of-the-proxy"

needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (Debian: nginx-light)")

#: What surrounds the file in /etc/nginx/nginx.conf, with all files in one folder.
WHOLE = """
{user}
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/mercury.conf;
}}
"""


def directive(name: str) -> str:
    found = re.search(rf"^\s*{name} ([^;]+);", CONFIGURATION.read_text(), re.MULTILINE)
    assert found is not None, f"{name} is not set"
    return found[1]


def seconds(text: str) -> float:
    assert text.endswith("s")
    return float(text[:-1])


@dataclass(frozen=True)
class Site:
    url: str
    #: Of Mercury behind it.
    inner: str
    certificates: Path

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        """One GET without a client certificate."""
        context = ssl.create_default_context(cafile=str(self.certificates / "ca.pem"))
        netloc = self.url.removeprefix("https://").partition("/")[0]
        connection = http.client.HTTPSConnection(netloc, timeout=PATIENCE, context=context)
        try:
            connection.request("GET", path, headers={name.replace("_", "-"): each for name, each in headers.items()})
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and its certificates of the server and of a client."""
    folder = tmp_path_factory.mktemp("certificates")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    usage = ("-subj", "/CN=ca", "-addext", "keyUsage=critical,keyCertSign,digitalSignature", "-days", "2")
    openssl("req", "-x509", *key, "-keyout", folder / "ca.key", "-out", folder / "ca.pem", *usage)
    for name, subject in (("server", "/CN=server"), ("client", "/O=Shop/CN=till")):
        (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
        openssl("req", *key, "-keyout", folder / f"{name}.key", "-out", folder / "csr", "-subj", subject)
        signed = ("-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-CAcreateserial", "-extfile", folder / "ext")
        openssl("x509", "-req", "-in", folder / "csr", *signed, "-days", "2", "-out", folder / f"{name}.pem")
    return folder


def written(folder: Path, certificates: Path, port: int, inner: str) -> Path:
    """The configuration with this machine's names; everything else as it is in the repository."""
    text = CONFIGURATION.read_text()
    for name, value in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("server 127.0.0.1:8000", f"server {inner}"),
        ("/etc/nginx/mercury/server.pem", f"{certificates}/server.pem"),
        ("/etc/nginx/mercury/server.key", f"{certificates}/server.key"),
        ("/etc/nginx/mercury/client-ca.pem", f"{certificates}/ca.pem"),
        ("/etc/nginx/mercury/secret.conf", f"{folder}/secret.conf"),
    ):
        assert text.count(name) == 1, name
        text = text.replace(name, value)
    (folder / "mercury.conf").write_text(text)
    (folder / "secret.conf").write_text(f'proxy_set_header X-Proxy-Secret "{SECRET}";\n')
    whole = folder / "nginx.conf"
    # Otherwise its processes get another user, which cannot read the folder.
    whole.write_text(WHOLE.format(folder=folder, user="user root;" if os.geteuid() == 0 else ""))
    return whole


@contextmanager
def nginx(whole: Path, port: int) -> Iterator[None]:
    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    assert NGINX is not None
    with Running(NGINX, "-e", str(whole.parent / "error.log"), "-c", str(whole)) as process:
        eventually(listens, "nginx accepts connections")
        yield
        process.terminate()
        assert process.ends().code == 0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, certificates: Path) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("nginx")
    port = free_port()
    settings = {"MERCURY_ADDRESS": f"https://127.0.0.1:{port}/shop", "PROXY_SECRET": SECRET}
    with (
        Serving("tests.deploy.app:app", **settings) as server,
        nginx(written(folder, certificates, port, server.netloc), port),
    ):
        yield Site(f"https://127.0.0.1:{port}/shop", server.netloc, certificates)


@needs_nginx
def test_nginx_accepts_the_file(tmp_path: Path, certificates: Path) -> None:
    assert NGINX is not None
    whole = written(tmp_path, certificates, free_port(), "127.0.0.1:8000")
    command = [NGINX, "-t", "-e", str(tmp_path / "error.log"), "-c", str(whole)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr


@needs_nginx
def test_the_wsdl_has_the_address_at_the_proxy(site: Site) -> None:
    status, text = site.get("/shop/services/desk?wsdl", X_Proxy_Secret="forged")
    assert status == 200
    assert f'location="{site.url}/services/desk"' in text
    assert site.inner not in text


@needs_nginx
def test_only_the_endpoints_are_public(site: Site) -> None:
    for path in ("/shop/healthz", "/shop/readyz", "/shop/mercury/status", "/services/desk", "/", "/shop/seen"):
        assert site.get(path)[0] == 404, path
    assert get(site.inner, "/healthz")[0] == 200


@needs_nginx
def test_a_message_and_its_response_pass_and_the_certificate_is_the_identity(site: Site) -> None:
    folder = site.certificates
    peer = Peer(
        ca_file=str(folder / "ca.pem"),
        client_cert=str(folder / "client.pem"),
        client_key=str(folder / "client.key"),
        headers={"X-Client-Certificate": "CN=admin", "X-Proxy-Secret": "forged"},
    )
    large = "x" * 2_000_000  # nginx's own limit is 1 MB
    before = len(json.loads(get(site.inner, "/seen")[1]))
    with Mercury("memory:", peers={site.url: peer}) as client:
        sender = client.to(f"{site.url}/services/desk")
        assert sender.request(Ask("fast"), response=Said).result(timeout=60) == Said("fast")
        assert sender.request(Ask(large), response=Said).result(timeout=60) == Said(large)
        # Longer than Mercury's own client waits on the connection: it fetches the response with another request.
        slow = Ask("slow", HttpSettings().back_channel_wait + 0.5)
        assert sender.request(slow, response=Said).result(timeout=60) == Said("slow")
    assert set(json.loads(get(site.inner, "/seen")[1])[before:]) == {"CN=till,O=Shop"}


@needs_nginx
def test_a_request_that_does_not_come_through_nginx_is_refused(site: Site) -> None:
    connection = http.client.HTTPConnection(site.inner, timeout=PATIENCE)
    forged = {"X-Client-Certificate": "CN=admin", "Content-Type": "text/xml"}
    connection.request("POST", "/services/desk", body=b"<a/>", headers=forged)
    reply = connection.getresponse()
    assert (reply.status, b"through the proxy" in reply.read()) == (401, True)
    connection.close()


# --- the figures -----------------------------------------------------------------------------------------------------


def test_nginx_waits_longer_than_mercury_holds_an_exchange() -> None:
    http_settings = HttpSettings()
    longest = max(http_settings.response_wait, http_settings.back_channel_wait)
    assert seconds(directive("proxy_read_timeout")) > longest


def test_nginx_closes_idle_connections_before_mercury_does() -> None:
    assert seconds(directive("keepalive_timeout")) < HttpSettings().idle_timeout


def test_nginx_takes_every_message_that_mercury_takes() -> None:
    limits = Settings().engine.limits
    allowed = directive("client_max_body_size")
    assert allowed.endswith("m")
    assert int(allowed[:-1]) * 1024**2 > max(limits.max_bytes, limits.max_bytes_with_attachments)


def test_the_public_paths_are_those_of_mercury() -> None:
    location = re.search(r"location ~ (\S+) \{", CONFIGURATION.read_text())
    assert location is not None
    pattern = location[1].replace("?<", "?P<")
    assert re.fullmatch(pattern, f"/shop{SERVICES}/orders")
    assert re.fullmatch(pattern, f"/shop{RESPONSES}")
