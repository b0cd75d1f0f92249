"""The URL paths of a process's endpoints."""

#: The services; each is below it, by its name.
SERVICES = "/services"
#: The endpoint for responses, acknowledgements and faults to this process's own messages.
RESPONSES = "/mercury/responses"
#: The status, which `mercury sequences` reads.
STATUS = "/mercury/status"
