"""Which micro-batches of a stream have begun in the lake, and with which watermark.

Spark repeats an interrupted batch. The logs of the tables say which changes of it are made (`Lake.has_batch`). Each
entry here is a file of its own and is written once. Entries of earlier batches are removed. Spark's checkpoint holds
the id of the stream.
"""

from __future__ import annotations

import json
from typing import Final

from lethe.pipeline.io.files import FileSystem

STREAMS: Final = "_streams"
_BEGUN: Final = "begun"
_TAKEN: Final = "taken"


class StreamNotes:
    """The notes of one stream. Change them inside `lake.writer`. Raises FileSystemError."""

    def __init__(self, files: FileSystem, stream_id: str) -> None:
        self._files = files
        self._place = f"{files.root}/{STREAMS}/{stream_id}"

    def has_batches(self) -> bool:
        """Return True if the lake has seen a batch of this stream."""
        return bool(self._files.list_directory(self._place))

    def begin(self, batch: int, watermark_ms: int | None) -> int | None:
        """Return the batch's watermark: this one, or the one with which it began before it was interrupted."""
        path = f"{self._place}/{_note_name(batch, _BEGUN)}"
        if self._files.exists(path):
            found = json.loads(self._files.read_text(path))["watermark_ms"]
            return None if found is None else int(found)
        temporary = f"{self._place}/.{_note_name(batch, _BEGUN)}"
        self._files.make_directory(self._place)
        self._files.write_text(temporary, json.dumps({"watermark_ms": watermark_ms}))
        self._files.rename(temporary, path)
        return watermark_ms

    def is_taken(self, batch: int) -> bool:
        """Return whether the batch's changes were made by a version of Lethe whose tables had no logs."""
        return self._files.exists(f"{self._place}/{_note_name(batch, _TAKEN)}")

    def remove_before(self, batch: int) -> None:
        """Remove the entries of earlier batches."""
        for item in self._files.list_directory(self._place):
            if int(item.name.partition(".")[0]) < batch:
                self._files.remove(item.path)


def _note_name(batch: int, what: str) -> str:
    return f"{batch:09}.{what}"
