"""Reads the files that the documents of a WSDL refer to: only below one folder, and only so many bytes."""

from __future__ import annotations

from pathlib import Path

from mercury.errors import ConfigurationError


class Folder:
    """A folder whose files may be read, and those below it.

    :param path: the folder; ``None`` = no file may be read.
    :param kind: what the files are, for errors: "WSDL" or "schema".
    :param max_bytes: the bytes that may be read in all.
    """

    def __init__(self, path: str | Path | None, kind: str, max_bytes: int) -> None:
        self._path = Path(path).resolve() if path is not None else None
        self._kind = kind
        self._max_bytes = max_bytes
        self._left = max_bytes

    def place(self, location: str, base: Path | None) -> Path:
        """The file of a location that a document refers to.

        :param base: the folder of the document; ``None`` = it was not read from a file.
        :raises ConfigurationError: the location is no file, or is outside the folder.
        """
        what = f"the {self._kind} {location}"
        if base is None or self._path is None:
            raise ConfigurationError(f"{what} is not read: name the file of the WSDL that imports it")
        if ":" in location:
            raise ConfigurationError(f"{what} is not read: only files below the folder of the WSDL are")
        file = (base / location).resolve()
        if not file.is_relative_to(self._path):
            raise ConfigurationError(f"{what} is not below the folder {self._path}")
        return file

    def read(self, file: Path, what: str) -> bytes:
        """The bytes of a file, which are counted.

        :raises ConfigurationError: the file cannot be read, or more than ``max_bytes`` are read.
        """
        try:
            data = file.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{what} cannot be read: {error.strerror or error}") from error
        self._left -= len(data)
        if self._left < 0:
            raise ConfigurationError(f"{what}: together the {self._kind}s have more than {self._max_bytes} bytes")
        return data
