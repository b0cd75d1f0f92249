"""Where things are found below a process's address."""

#: Services, each by its name.
SERVICES = "/services"
#: Responses, acknowledgements and faults for this process's own messages.
RESPONSES = "/mercury/responses"
#: What `mercury sequences` asks; answered to this machine only.
STATUS = "/mercury/status"
