"""What identifies a lake, the directory of the pipeline's tables: `lake.json`. Each table in it has a log (`LOG`).

{"version": 2, "cluster_id": "..."}        the cluster's id is null until a survey has supplied it

In a lake of version 1 tables have no log: they are the files of their directories.
"""

from __future__ import annotations

import json
from typing import Final

IDENTITY: Final = "lake.json"
LOG: Final = "_delta_log"
"""In a table's directory: which of its files have the table's rows."""
VERSION: Final = 2
_WITHOUT_LOGS: Final = 1
_SAME_FOR_ALL: Final = len('{"version": ')


def encode_identity(cluster_id: str | None) -> str:
    """Return the file's text."""
    return json.dumps({"version": VERSION, "cluster_id": cluster_id}) + "\n"


def cluster_of(text: str) -> str | None:
    """Return the Kafka cluster of the lake; None if it is not recorded yet.

    Raises ValueError for a malformed text and for a lake of a later version, with the remedy.
    """
    cluster_id = _identity(text).get("cluster_id")
    if not (cluster_id is None or isinstance(cluster_id, str)):
        raise ValueError("it says of no lake what it is: its cluster_id is no text")
    return cluster_id


def has_logs(text: str) -> bool:
    """Return whether the lake's tables have logs. Raises ValueError as `cluster_of`."""
    return _identity(text)["version"] != _WITHOUT_LOGS


def _identity(text: str) -> dict[str, object]:
    try:
        identity = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it says of no lake what it is: {error}") from error
    version = identity.get("version") if isinstance(identity, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        raise ValueError("it says of no lake what it is: it names no version")
    if version > VERSION:
        raise ValueError(f"a lake of version {version}, and this program supports {VERSION}: use a newer one")
    if version < _WITHOUT_LOGS:
        raise ValueError(f"it says of no lake what it is: there is no version {version}")
    return dict(identity)


def is_begun(text: str) -> bool:
    """True if the text may be the beginning of such a file, as a crash during its write leaves it."""
    begin = encode_identity(None)[:_SAME_FOR_ALL]
    return begin.startswith(text[:_SAME_FOR_ALL])
