"""Range checks of numeric settings. The error names the setting."""

from __future__ import annotations

from mercury.errors import ConfigurationError

#: The longest text in bytes of UTF-8 that every store can index. A whole index row of PostgreSQL holds 2,704 bytes.
INDEXED_BYTES = 2048
#: The longest internal key in bytes of UTF-8. An index holds it together with an endpoint.
KEY_BYTES = 512


def at_least(least: float, **given: float | None) -> None:
    """Every number is ``least`` or more; ``None`` = not set.

    :raises ConfigurationError: a value is below ``least``, or is not a number. The text begins with the setting's name.
    """
    for name, value in given.items():
        if value is not None and not value >= least:
            raise ConfigurationError(f"{name}: {value} is not at least {least}")


def at_most(most: float, **given: float | None) -> None:
    """Every number is ``most`` or less; ``None`` = not set.

    :raises ConfigurationError: a value is above ``most``, or is not a number. The text begins with the setting's name.
    """
    for name, value in given.items():
        if value is not None and not value <= most:
            raise ConfigurationError(f"{name}: {value} is not at most {most}")


def storable(most: int, **given: str | None) -> None:
    """Every text fits ``most`` bytes of UTF-8 and has only characters that every store keeps; ``None`` = not set.

    :raises ConfigurationError: a text does not fit. The error text begins with the setting's name.
    """
    for name, value in given.items():
        if value is None:
            continue
        if "\0" in value:
            raise ConfigurationError(f"{name}: it has the character U+0000, which a database does not keep")
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            raise ConfigurationError(f"{name}: it is no Unicode text: {error.reason}") from error
        if size > most:
            raise ConfigurationError(f"{name}: {size} bytes of UTF-8 are more than {most}; choose a shorter one")


def above(bound: float, **given: float | None) -> None:
    """Every number is more than ``bound``; ``None`` = not set.

    :raises ConfigurationError: one is not; the text begins with its name.
    """
    for name, value in given.items():
        if value is not None and not value > bound:
            raise ConfigurationError(f"{name}: {value} is not above {bound}")


def below(bound: float, **given: float) -> None:
    """Every number is less than ``bound``.

    :raises ConfigurationError: one is not; the text begins with its name.
    """
    for name, value in given.items():
        if not value < bound:
            raise ConfigurationError(f"{name}: {value} is not below {bound}")
