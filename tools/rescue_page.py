"""Writes docs/rescue.md from stories that tests/interop/test_rescue.py has left: real brokers, real output.

    LETHE_RESCUE_STORIES=DIR pytest -m interop tests/interop/test_rescue.py
    python -m tools.rescue_page DIR

`make rescue-page` does both.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "rescue.md"
WIDTH: Final = 140
ORDER: Final = (
    "A deletion interrupted between two znodes",
    "A broker that does not return",
)
"""The stories that are told, in order."""

INTRODUCTION: Final = """\
# Rescuing a cluster whose deletions hang

<!-- Written by `make rescue-page` from runs against real brokers. Do not edit. -->

    lethe rescue --zookeeper zk1:2181/kafka --dry-run
    lethe rescue --zookeeper zk1:2181/kafka
    lethe rescue --zookeeper zk1:2181/kafka --topic orders --topic invoices --yes --json

It works on any cluster in ZooKeeper mode, with Kafka's own controller at work, wedged, or gone. It first says what is
stuck and why. If you agree (`--yes`, or an answer at the terminal), it

1. takes `/controller`, leaves the former controller five seconds to notice, and raises the epoch;
2. finishes the deletions whose brokers answer: half-deleted topics, topics in the middle of a reassignment (which is
   ended), markers without topics, entries of `/admin/reassign_partitions` that name nothing;
3. hands control back in every case: done, timed out, failed, Ctrl-C;
4. says what remains, why, and what would unblock it.

Meanwhile clients produce and consume. ISR changes, new producer ids and controlled shutdowns of brokers wait, so
**restart no broker**. With `--topic` only these topics are deleted; the marks of the others stay, and what registered
brokers owe of deleted topics stays owed.

| exit code | |
|---|---|
| 0 | nothing is stuck any more |
| 1 | something remains, or was refused: the output says why (with `--dry-run`: something is stuck) |
| 2 | bad usage, or no terminal to ask at: give `--yes` |
| 3 | a place was not seen, and nothing else remains; or ZooKeeper or control could not be had, or was lost |
| 4 | deletions were still going on when `--timeout-ms` was over |
| 130 | interrupted; control was handed back |

It does not ([0036](decisions/0036-rescue.md))

* delete topics that are not marked, or anything where `delete.topic.enable=false`, unless you name each topic and add
  `--even-if-disabled`;
* forget a broker unless `--forget` names it, whatever request a killed command has left; with `--forget`, no other
  broker is asked for what it owes;
* answer for a broker that is away: start it with its disks, and read [this](runbook.md#an-empty-broker) before you
  start an empty one;
* do anything while deletions are paused, or while the brokers' configuration in ZooKeeper cannot be read;
* take control from one of Lethe's own controllers, or repair a znode that cannot be understood.

If the former controller is frozen and has a replica, its topic remains; another Kafka controller finishes it when the
process wakes.

The rest of this page shows runs on real clusters under Kafka's own controller (`tests/interop/test_rescue.py`).
"""


def page(stories: Sequence[Mapping[str, Any]]) -> str:
    """The text of the page; of several versions the newest one's stories are told, and the others named."""
    newest = max(_number(story["version"]) for story in stories)
    told = [story for story in stories if _number(story["version"]) == newest]
    told = sorted((story for story in told if story["title"] in ORDER), key=lambda story: ORDER.index(story["title"]))
    parts = [INTRODUCTION]
    for story in told:
        others = sorted(
            each["version"]
            for each in stories
            if each["title"] == story["title"] and each["version"] != story["version"]
        )
        also = f" Kafka {', '.join(others)} went the same way." if others else ""
        parts.append(f"\n## {story['title']}\n\nKafka {story['version']}.{also}\n")
        parts += [_step(step) for step in story["steps"]]
    return "".join(parts).rstrip("\n") + "\n"


def _step(step: Mapping[str, str]) -> str:
    what, text = step["what"], step["text"]
    if what.startswith("$ "):
        text = f"{what}\n{text}"
        what = ""
    elif what == "Told":
        return f"\n{text[0].upper()}{text[1:]}.\n"
    heading = f"\n{what}:\n" if what else ""
    lines = [line if len(line) <= WIDTH else f"{line[:WIDTH]} …" for line in text.splitlines()]
    return heading + "\n" + "\n".join(f"    {line}".rstrip() for line in lines) + "\n"


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def main(arguments: Sequence[str]) -> int:
    """Writes the page; 1 where there are no stories."""
    stories = [json.loads(path.read_text()) for each in arguments for path in sorted(Path(each).glob("*.json"))]
    if not stories:
        sys.stderr.write(f"no stories in {', '.join(arguments) or 'nothing'}: see the docstring of this module\n")
        return 1
    PAGE.write_text(page(stories), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
