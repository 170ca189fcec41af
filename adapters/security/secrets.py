"""Passwords and private keys: values that no message, log line or file shows.

A secret comes from a property (so also from its environment variable), or from a file that `<name>.file` names. Such a
file is read whenever the secret is used, so that a password can change together with the store that it opens.
"""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Final, NoReturn

from lethe.adapters.security.files import read_file
from lethe.adapters.security.unusable import Unusable

MAX_BYTES: Final = 64 * 1024
"""Largest file with a secret; a larger one is another file."""


class Secret:
    """A text that only `reveal` returns. Its representation does not depend on it, and it cannot be pickled."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def path(self) -> Path | None:
        """The file that the secret is read from at each use; None if it was given as a value."""
        return None

    def reveal(self) -> str:
        """Return the text. Raises Unusable if it is in a file that cannot be read."""
        return self._text

    def __repr__(self) -> str:
        return "<secret>"

    def __eq__(self, other: object) -> bool:
        """Whether both are given in the same way and, if as values, are equal."""
        if not isinstance(other, Secret) or self.path != other.path:
            return False
        return hmac.compare_digest(_bytes(self._text), _bytes(other._text))

    def __hash__(self) -> int:
        return hash((self.path, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is neither pickled nor copied")


class FileSecret(Secret):
    """A secret that is the content of a file, without the end of its last line."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        super().__init__("")
        self._path = path

    @property
    def path(self) -> Path:
        return self._path

    def reveal(self) -> str:
        data = read_file(self._path, MAX_BYTES)
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise Unusable("is not text in UTF-8", "write the secret alone into it, as text") from None
        text = text.removesuffix("\n").removesuffix("\r")
        if not text:
            raise Unusable("is empty", "write the secret into it")
        return text

    def __repr__(self) -> str:
        return f"<secret in {self._path}>"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
