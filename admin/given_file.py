"""Reads the files that options name. Each failure names the option, the file, the reason and the remedy."""

from __future__ import annotations

from pathlib import Path

from lethe.adapters.security.files import why_unreadable
from lethe.admin.refusal import Exit, Refusal


def read_given(option: str, path: Path) -> bytes:
    """Return the content of the file that the option names. Raises Refusal."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise unread(option, path, error) from error


def unread(option: str, path: Path, error: OSError) -> Refusal:
    """Return the refusal for a file, named by this option, that cannot be read."""
    return Refusal(f"{option}: {path} {why_unreadable(path, error)}", Exit.USAGE)
