"""The matrix of cells: client, server, protocol, exchange pattern, and network faults of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

MERCURY = "mercury"
CXF = "cxf"
METRO = "metro"


@dataclass(frozen=True)
class Cell:
    """One combination. What is not said is as the stacks have it by default."""

    client: str
    server: str
    #: WS-ReliableMessaging, WS-Addressing and SOAP versions.
    rm: str
    wsa: str
    soap: str
    #: ``one-way`` or ``request``.
    exchange: str
    #: How acknowledgements and responses come back: ``anonymous``, ``addressable`` or ``make-connection``.
    replies: str = "anonymous"
    #: The sequence for responses: ``default`` (offered), ``none``, ``declined``.
    offer: str = "default"
    #: ``clean`` or ``lossy``.
    network: str = "clean"
    #: The process that is killed and restarted in the middle: ``client``, ``server`` or neither.
    kill: str = ""
    #: The other stack is configured only by a WSDL with a policy. Metro always is.
    policy: bool = False
    #: CXF's server is configured to deliver once and in order; by default it does neither.
    assured: bool = True

    @property
    def name(self) -> str:
        said = [f"{self.client}-{self.server}", f"rm{self.rm}", f"wsa{self.wsa.replace('/', '')}", f"soap{self.soap}"]
        said += [self.exchange, self.replies]
        said += [f"offer-{self.offer}"] if self.offer != "default" else []
        said += [self.network] if self.network != "clean" else []
        said += [f"{self.kill}-killed"] if self.kill else []
        said += ["policy"] if self.policy else []
        said += ["unassured"] if not self.assured else []
        return "_".join(said)

    @property
    def setting(self) -> str:
        """The settings that the cell needs beside the dialect."""
        said = []
        if METRO in (self.client, self.server):
            said.append("policy in the WSDL")
        if self.policy:
            said.append("policy in the WSDL alone")
        elif self.server == CXF and self.assured:
            said.append("server: ExactlyOnce, InOrder")
        if self.one_at_a_time:
            said.append("client: source.max_unanswered = 1")
        if self.one_in_flight:
            said.append("client: source.window = 1, source.retransmission.base = 10")
        if self.offer == "none":
            said.append("client: no offer")
        if self.offer == "declined":
            said.append("server: acceptOffers false")
        if self.replies == "addressable":
            said.append("client: decoupled endpoint" if self.client == CXF else "client: listens")
        return "; ".join(said) or "none"

    @property
    def one_in_flight(self) -> bool:
        """A CXF server that promises nothing delivers messages in the order of its threads, and repetitions again."""
        return self.client == MERCURY and not self.assured

    @property
    def one_at_a_time(self) -> bool:
        """A Metro server queues the response of a repeated request twice, and the second copy blocks those behind it
        unless only one is awaited, as by Metro's own client. A CXF server that makes a sequence for responses lets one
        of the requests go on that wait for it: docs/interop.md.
        """
        repeats = self.network == "lossy" or self.kill == "client"
        makes = self.server == CXF and self.replies == "addressable" and self.offer != "default"
        return self.exchange == "request" and (makes or (self.server == METRO and repeats))


#: RM with WS-Addressing; the first is CXF's default, the last Metro's.
DIALECTS = {CXF: (("1.0", "2004/08"), ("1.0", "1.0"), ("1.1", "1.0")), METRO: (("1.1", "1.0"), ("1.0", "1.0"))}


def matrix() -> list[Cell]:
    """Every cell there is."""
    return [*_cells(CXF, MERCURY), *_cells(MERCURY, CXF), *_cells(METRO, MERCURY), *_cells(MERCURY, METRO)]


def _cells(client: str, server: str) -> Iterator[Cell]:
    plain = list(_plain(client, server))
    yield from plain
    yield from (replace(cell, network="lossy") for cell in plain)
    simple = [cell for cell in plain if cell.soap == "1.1"]
    if client != METRO:
        yield from (replace(cell, offer="none") for cell in simple)
    if server == CXF:
        yield from (replace(cell, offer="declined") for cell in simple)
    if server == CXF:
        yield from (replace(cell, assured=False) for cell in _anonymous(simple))
    if CXF in (client, server):
        # A server's policy names one version of WS-RM; 1.0 has no words for order.
        yield from (
            replace(cell, policy=True)
            for cell in _anonymous(plain)
            if cell.wsa == "1.0" and (cell.rm == "1.1" or client == CXF)
        )
    if client == METRO:
        yield from (replace(cell, replies="make-connection") for cell in plain if cell.rm == "1.1")
    killed = "server" if server == MERCURY else "client"
    yield from (replace(cell, kill=killed) for cell in _anonymous(simple))


def _plain(client: str, server: str) -> Iterator[Cell]:
    for rm, wsa in DIALECTS[client if client != MERCURY else server]:
        for soap in ("1.1", "1.2"):
            for exchange in ("one-way", "request"):
                yield Cell(client, server, rm, wsa, soap, exchange)
                if client != METRO:  # it cannot listen
                    yield Cell(client, server, rm, wsa, soap, exchange, "addressable")


def _anonymous(cells: Iterable[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.replies == "anonymous"]


def slice_of_matrix() -> list[Cell]:
    """What `make test` runs: the clean cells without special settings, and a few with a bad network."""
    lossy = {
        f"{pair}_rm1.1_wsa1.0_soap1.1_one-way_anonymous_lossy"
        for pair in ("cxf-mercury", "mercury-cxf", "metro-mercury")
    } | {f"{pair}_rm1.1_wsa1.0_soap1.2_request_anonymous_lossy" for pair in ("cxf-mercury", "metro-mercury")}
    return [cell for cell in matrix() if cell.name in lossy or _quick(cell)]


def _quick(cell: Cell) -> bool:
    usual = cell.offer == "default" and cell.network == "clean" and not cell.kill and cell.assured
    # Metro acknowledges to an address when the sequence is closed, which Mercury does after a minute.
    if not usual or cell.replies == "make-connection" or (cell.server == METRO and cell.replies == "addressable"):
        return False
    # Each version of SOAP with one exchange, and with the other one where the policy decides.
    return (cell.soap == "1.2") is ((cell.exchange == "request") is not cell.policy)


def among_peers(cell: Cell) -> Cell:
    """The same cell with the peer in Mercury's place: what fails there is the peer's own limit."""
    peer = cell.client if cell.client != MERCURY else cell.server
    return replace(cell, client=peer, server=peer)
