"""Results of benchmarks as JSON documents, as they are stored beside docs/benchmarks.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Document = dict[str, Any]


def write(found: Document, path: Path) -> None:
    """Write the document as indented JSON."""
    path.write_text(json.dumps(found, indent=1) + "\n")


def read(path: Path) -> Document:
    """Return the stored document. Raises OSError, and ValueError for what is none."""
    found = json.loads(path.read_text())
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no object")
    return found
