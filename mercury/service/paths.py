"""The URL paths of a process's endpoints."""

#: The path above all services; the last part of a service's path is its name.
SERVICES = "/services"
#: The endpoint for responses, acknowledgements and faults to this process's own messages.
RESPONSES = "/mercury/responses"
#: The status of all sequences, which `mercury sequences` reads.
STATUS = "/mercury/status"
