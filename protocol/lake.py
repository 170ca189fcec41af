"""`lake.json`: identifies a lake, the directory of the pipeline's tables.

{"version": 1, "cluster_id": "..."}        the cluster's id is null until a survey has supplied it
"""

from __future__ import annotations

import json
from typing import Final

IDENTITY: Final = "lake.json"
VERSION: Final = 1
_SAME_FOR_ALL: Final = len('{"version": ')


def encode_identity(cluster_id: str | None) -> str:
    """Return the file's text."""
    return json.dumps({"version": VERSION, "cluster_id": cluster_id}) + "\n"


def cluster_of(text: str) -> str | None:
    """Return the Kafka cluster of the lake; None if it is not recorded yet.

    Raises ValueError for a malformed text and for a lake of another version, with the remedy.
    """
    try:
        identity = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it says of no lake what it is: {error}") from error
    version = identity.get("version") if isinstance(identity, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        raise ValueError("it says of no lake what it is: it names no version")
    if version > VERSION:
        raise ValueError(f"a lake of version {version}, and this program supports {VERSION}: use a newer one")
    if version < VERSION:
        raise ValueError(
            f"a lake of version {version}, and this program supports {VERSION}: make a new lake from the journals and "
            "surveys"
        )
    cluster_id = identity.get("cluster_id")
    if not (cluster_id is None or isinstance(cluster_id, str)):
        raise ValueError("it says of no lake what it is: its cluster_id is no text")
    return cluster_id


def is_begun(text: str) -> bool:
    """True if the text may be the beginning of such a file, as a crash during its write leaves it."""
    begin = encode_identity(None)[:_SAME_FOR_ALL]
    return begin.startswith(text[:_SAME_FOR_ALL])
