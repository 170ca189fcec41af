"""Record the history of `tests/wire/history.py` with Kafka's controller and with ours: `make golden`.

    python -m tools.golden [--only kafka|lethe] [VERSION ...]

Writes tests/wire/<controller>-<version>.jsonl, then docs/wire-differences.md. Exit code 1 where the recordings differ
in a way that is not listed; they are written all the same, for a look.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lethe.cluster.kafka_fetch import KafkaVersion, fetch_kafka
from tests.wire.history import record
from tests.wire.recording import VERSIONS, Who, write_recording
from tools.docs import PAGES, write

PAGE: Final = "docs/wire-differences.md"


def main(arguments: Sequence[str]) -> int:
    """See above."""
    parser = argparse.ArgumentParser(prog="python -m tools.golden")
    parser.add_argument("versions", nargs="*", default=VERSIONS, help="of Kafka; both where none is given")
    parser.add_argument("--only", choices=[str(who) for who in Who], help="record with this controller only")
    options = parser.parse_args(arguments)
    for text in options.versions:
        kafka = fetch_kafka(KafkaVersion.parse(text), lambda told: print(told, flush=True))
        for who in Who if options.only is None else [Who(options.only)]:
            print(f"Kafka {text}, the controller is {who.title()}'s", flush=True)
            with tempfile.TemporaryDirectory(prefix="lethe-golden-") as work_dir:
                recording = asyncio.run(record(who, kafka, Path(work_dir)))
            path = write_recording(recording)
            print(f"{len(recording.exchanges)} exchanges, {path.stat().st_size} bytes: {path}", flush=True)
    return _write_page()


def _write_page() -> int:
    """Of all recordings that are kept, also of those that are not new."""
    try:
        (page,) = [each for each in PAGES if each.path == PAGE]
        print(f"{PAGE}: {'written' if write(page) else 'unchanged'}")
    except (OSError, ValueError) as problem:
        print(f"{PAGE} was not written: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
