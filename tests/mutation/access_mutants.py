"""The guards of TLS and of identities, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

FILES = "tests/unit/engine/runtime/test_certificate_files.py"
ACCOUNTS = "tests/acceptance/test_accounts.py"


def guard(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    return Mutant(f"access: {name}", (Change(symbol, before, after),), test=test)


ACCESS = (
    guard(
        "files that cannot be used change nothing",
        "mercury.engine.runtime.certificate_files:FileContext._look",
        "except ConfigurationError as error:",
        "except ZeroDivisionError as error:",
        f"{FILES}::test_unusable_files_are_read_once_and_again_when_they_change",
    ),
    guard(
        "unusable files are read once",
        "mercury.engine.runtime.certificate_files:FileContext._look",
        "self._read = state",
        "pass",
        f"{FILES}::test_unusable_files_are_read_once_and_again_when_they_change",
    ),
    guard(
        "the password of the name",
        "mercury.service.accounts:Accounts._by_password",
        "known = name if same_name & same else known",
        "known = name if same else known",
        f"{ACCOUNTS}::test_sender_that_shows_nothing_known_is_refused_with_401",
    ),
    guard(
        "secrets in texts of errors",
        "mercury.engine.runtime.credentials:_read",
        "except ConfigurationError:  #",
        "except ZeroDivisionError:  #",
        f"{ACCOUNTS}::test_setting_that_is_no_credential_is_refused_without_showing_it",
    ),
)
