"""The URL paths of a process's endpoints."""

#: The path above all services; the last part of a service's path is its name.
SERVICES = "/services"
#: The endpoint for responses, acknowledgements and faults to this process's own messages.
RESPONSES = "/mercury/responses"
#: The status of all sequences, which `mercury sequences` reads.
STATUS = "/mercury/status"
#: The calls of operators, which `mercury` commands with ``--at`` make.
OPERATE = "/mercury/operate"
#: The metrics, as Prometheus expects them.
METRICS = "/metrics"


def responses_url(address: str | None) -> str | None:
    """The URL at which a process with this address takes responses; ``None`` = it has no address."""
    return None if address is None else f"{address}{RESPONSES}"
