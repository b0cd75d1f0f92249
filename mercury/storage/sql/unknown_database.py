"""The error for an application that asks a transaction for a database that it does not have."""

from __future__ import annotations

from mercury.errors import CapabilityError


def unknown_database(resource: str, *, joined: bool) -> CapabilityError:
    """The error for the name of a database.

    :param joined: the transaction is the application's own.
    """
    if joined:
        return CapabilityError(
            f"the application's own transaction cannot include the database {resource!r}: use Mercury's, "
            "`with mercury.transaction() as tx:`, and tx.session() for the store's database"
        )
    return CapabilityError(
        f"no database is named {resource!r}: name it when Mercury is made, Mercury(..., "
        f"resources={{{resource!r}: engine}})"
    )
