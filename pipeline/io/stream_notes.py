"""What the lake knows of a stream: which of its micro-batches have begun, with which watermark, and been taken in.

Spark repeats a batch that was interrupted. The note that a batch was taken in comes into the lake in one change with
the batch's lines (`StagedRows.keep`), so that it is known for certain whether they are there. Notes are files of their
own, never written twice; those of earlier batches are removed. A stream is known by the id in Spark's checkpoint.
"""

from __future__ import annotations

import json
from typing import Final

from lethe.pipeline.io.files import Files

STREAMS: Final = "_streams"
_BEGUN: Final = "begun"
_TAKEN: Final = "taken"


class StreamNotes:
    """Notes about one stream. Changed inside `lake.writer`. Raises FileTrouble."""

    def __init__(self, files: Files, stream_id: str) -> None:
        self._files = files
        self._place = f"{files.root}/{STREAMS}/{stream_id}"
        self._below = f"{STREAMS}/{stream_id}"

    def is_known(self) -> bool:
        """Whether the lake has seen any batch of it."""
        return bool(self._files.items(self._place))

    def begin(self, batch: int, watermark_ms: int | None) -> int | None:
        """The batch's watermark: this one, or that with which it began before it was interrupted."""
        path = f"{self._place}/{_name(batch, _BEGUN)}"
        if self._files.exists(path):
            found = json.loads(self._files.read_text(path))["watermark_ms"]
            return None if found is None else int(found)
        temporary = f"{self._place}/.{_name(batch, _BEGUN)}"
        self._files.make_directory(self._place)
        self._files.write_text(temporary, json.dumps({"watermark_ms": watermark_ms}))
        self._files.rename(temporary, path)
        return watermark_ms

    def is_taken(self, batch: int) -> bool:
        return self._files.exists(f"{self._place}/{_name(batch, _TAKEN)}")

    def taken(self, batch: int) -> str:
        """The path, below the lake, of the note that the batch was taken in."""
        return f"{self._below}/{_name(batch, _TAKEN)}"

    def forget_before(self, batch: int) -> None:
        """Removes the notes of earlier batches."""
        for item in self._files.items(self._place):
            if int(item.name.partition(".")[0]) < batch:
                self._files.remove(item.path)


def _name(batch: int, what: str) -> str:
    return f"{batch:09}.{what}"
