"""What an attacker puts into each text that a peer or an application writes."""

from __future__ import annotations

#: It would write into the page's title.
ATTACK = (
    "<script>document.title='RAN'</script><img src=x onerror=\"document.title='RAN'\">"
    "\"onmouseover=\"document.title='RAN'\" '><svg/onload=document.title='RAN'> {{7*7}} \u202e"
)
#: In XML, as an application or a peer sends it.
IN_XML = ATTACK.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def text_of(field: str) -> str:
    """The text of a field."""
    return IN_XML if field in ("payload", "header") else ATTACK
