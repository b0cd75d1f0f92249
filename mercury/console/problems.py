"""Errors as pages: what has happened, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.exceptions import HTTPException

from mercury.console.requests import Refused
from mercury.console.visits import BadRequest, NotFound
from mercury.errors import Conflict, MercuryError, StorageError
from mercury.storage.xa.operator import ResolutionRefused


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as a page shows it."""

    status: int
    title: str
    text: str
    #: What the user can do.
    advice: str
    #: A defect: it is logged with its traceback.
    unexpected: bool = False


def problem_of(error: Exception) -> Problem:
    """The page of an error."""
    match error:
        case Refused():
            return Problem(error.status, "Refused", str(error), "")
        case NotFound():
            return Problem(
                404,
                "Not found",
                str(error),
                "It may have ended or been handled since the page before was made. Search for it.",
            )
        case BadRequest():
            return Problem(400, "Not possible", str(error), "Go back and correct it.")
        case Conflict():
            text = f"Something else has changed it meanwhile; nothing was done: {error}"
            return Problem(409, "Changed meanwhile", text, "Load the page again, and look at its state now.")
        case TimeoutError():
            return Problem(
                503,
                "The store does not answer",
                "The database has not answered in time. An action may still be done: the audit shows whether it was.",
                "Look whether the database runs and can be reached from here, then load the page again.",
            )
        case ResolutionRefused():  # a StorageError of a store that answers
            return Problem(
                409,
                "The transaction is not resolved",
                str(error),
                "Look at the transactions in doubt as they are now, and at the audit.",
            )
        case StorageError():
            return Problem(
                503,
                "The store cannot be read now",
                str(error),
                "Look whether the database runs and can be reached from here, then load the page again.",
            )
        case MercuryError():
            return Problem(409, "Not possible", str(error), "Nothing was done. Go back, and look at its state now.")
        case HTTPException(status_code=405):
            return Problem(405, "Not a page", "This address takes forms only.", "Begin at the overview.")
        case HTTPException():
            return Problem(error.status_code, "Not found", "There is no such page.", "Begin at the overview.")
        case _:
            text = "The console has failed at this page. The log of its process has the reason."
            return Problem(500, "The console failed", text, "Load the page again; report it if it fails again.", True)
