"""Masks the passwords of URLs, for logs, the errors and the output of commands."""

from __future__ import annotations

import re

#: The name of a user, then ``:`` and a password up to the last ``@``.
_OF_USER = re.compile(r"((?::/{1,2}|(?:^|[^/:])//)[^/@:\s]*):\S*@")
#: An option in the query that holds a secret or names a file of them: PostgreSQL's ``password``, ``sslpassword``,
#: ``passfile``.
_OPTION = re.compile(r"(?i)([?&][^=&\s]*(?:pass|secret|token)[^=&\s]*=)[^&\s]*")


def masked(text: str) -> str:
    """``text`` with the passwords of URLs in it masked: too much rather than too little of a URL it cannot parse."""
    return _OPTION.sub(r"\1***", _OF_USER.sub(r"\1:***@", text))
