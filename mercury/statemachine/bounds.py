"""What a figure must be to be of use: said once, with the name of what was set."""

from __future__ import annotations

from mercury.errors import ConfigurationError


def at_least(least: float, **given: float | None) -> None:
    """Every figure is ``least`` or more; ``None`` = not set.

    :raises ConfigurationError: one is below, or no number at all; the text begins with its name.
    """
    for name, value in given.items():
        if value is not None and not value >= least:
            raise ConfigurationError(f"{name}: {value} is not at least {least}")


def above(bound: float, **given: float | None) -> None:
    """Every figure is more than ``bound``; ``None`` = not set.

    :raises ConfigurationError: one is not; the text begins with its name.
    """
    for name, value in given.items():
        if value is not None and not value > bound:
            raise ConfigurationError(f"{name}: {value} is not above {bound}")


def below(bound: float, **given: float) -> None:
    """Every figure is less than ``bound``.

    :raises ConfigurationError: one is not; the text begins with its name.
    """
    for name, value in given.items():
        if not value < bound:
            raise ConfigurationError(f"{name}: {value} is not below {bound}")
