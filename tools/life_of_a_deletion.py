"""Write docs/life-of-one-deletion.md from a real deletion: `make life`.

The recording (`life_run`) and the decoding of its frames (`life_frames`) know nothing of the page; the words are in
`life_words`. Each exchange belongs to a step by what it says, so that the page follows what was recorded: a step that
did not happen is not on it, and what nobody has foreseen is shown under a heading that says so.
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lethe.protocol.journal import EventRecordType, JsonValue
from lethe.protocol.vocabulary import LEADER_DURING_DELETE, TopicId, topic_id_to_text
from lethe.protocol.zookeeper import paths
from tests.wire.cluster import RecordingFailed
from tools.life_frames import Exchange, kafka_exchanges, zookeeper_exchanges
from tools.life_run import BROKERS, DELETE_DELAY_MS, TOPIC, Directories, Recording, record
from tools.life_words import BROKER_STEP, TEMPLATE, WORDS, paragraph

PAGE: Final = Path(__file__).parents[1] / "docs" / "life-of-one-deletion.md"
TOPIC_ID: Final = TopicId(uuid.UUID("6f1c2f0e-8d3a-4b57-9a3e-0c1d2e3f4a5b"))
_WIDTH: Final = 100


@dataclass(slots=True)
class Step:
    """Exchanges of one kind, one for each peer at most where they go to brokers."""

    key: str
    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def began_ns(self) -> int:
        return self.exchanges[0].time_ns

    @property
    def ended_ns(self) -> int:
        return max(each.answered_ns or each.time_ns for each in self.exchanges)

    @property
    def to_brokers(self) -> bool:
        return self.exchanges[0].peer != "ZooKeeper"


# --- from frames to steps -----------------------------------------------------------------------------------------


def exchanges_of(recording: Recording) -> list[Exchange]:
    """Everything that passed, in the order of its beginning; without reads of caches, which follow a broker's
    registration and may fall into a deletion on a slow machine."""
    found = zookeeper_exchanges(recording.zookeeper)
    for broker, frames in recording.brokers.items():
        found += kafka_exchanges(f"broker {broker}", frames)
    return sorted((each for each in found if _name(each) != "Metadata"), key=lambda each: each.time_ns)


def steps_of(exchanges: Sequence[Exchange]) -> list[Step]:
    """The steps in the order of their beginning."""
    steps: list[Step] = []
    is_removed = False
    for exchange in exchanges:
        key = _key(exchange, is_removed)
        is_removed |= key == "removal"
        known = next((step for step in reversed(steps) if step.key == key), None)
        is_again = known is not None and known.to_brokers and exchange.peer in [each.peer for each in known.exchanges]
        if known is None or is_again:
            known = Step(key)
            steps.append(known)
        known.exchanges.append(exchange)
    return steps


def _name(exchange: Exchange) -> str:
    return exchange.what.partition(" ")[0]


def _key(exchange: Exchange, is_removed: bool) -> str:
    name, body = _name(exchange), exchange.body
    if name in ("watch", "getChildren", "getData", "multiRead", "exists", "setWatches"):
        if is_removed:
            return "aftermath"
        return "noticed" if name == "watch" else "looks"
    if name == "multi":
        return "removal" if paths.topic(TOPIC) in [each["path"] for each in body if each["op"] == "delete"] else "other"
    partitions = [each for topic in body.get("topics", ()) if topic["topic"] == TOPIC for each in topic["partitions"]]
    match name:
        case "UpdateMetadata" if partitions and all(each["leader"] == LEADER_DURING_DELETE for each in partitions):
            return "tombstone"
        case "LeaderAndIsr" if partitions:
            return "announce"
        case "StopReplica" if partitions:
            return "delete" if partitions[0]["delete"] else "stop"
        case _:
            return "other"


# --- the page -----------------------------------------------------------------------------------------------------


def page(recording: Recording) -> str:
    """Return the whole page as Markdown."""
    steps = steps_of(exchanges_of(recording))
    first = {each.broker: each.found for each in reversed(recording.directories)}
    later = [each for each in recording.directories if each.time_ns > recording.marked_ns]
    last_ns = max(each.time_ns for each in recording.directories)
    return TEMPLATE.format(
        topic=TOPIC,
        topic_id=TOPIC_ID,
        znode_id=topic_id_to_text(TOPIC_ID),
        seconds=(last_ns - recording.marked_ns) / 1e9,
        delay_ms=DELETE_DELAY_MS,
        arrows="\n".join(f"    {line}" for line in _arrows(recording, steps)),
        znodes_before=_rows(_znodes(recording.znodes_before)),
        disks_before=_rows((broker, _found(first[broker])) for broker in BROKERS),
        steps="\n\n".join(_step(recording, step) for step in steps),
        states=_rows(_states(recording)),
        disks=_rows(
            (_ms(recording, each.time_ns), each.broker, _found(each.found)) for each in _renamed_or_gone(later)
        ),
        znodes_after=_rows(_znodes(recording.znodes_after)),
    )


def _rows(rows: Iterable[tuple[object, ...]]) -> str:
    """Return rows of a table, without its head."""
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def _ms(recording: Recording, time_ns: int) -> str:
    return f"{(time_ns - recording.marked_ns) / 1e6:+.1f} ms"


def _arrows(recording: Recording, steps: Sequence[Step]) -> list[str]:
    lines: list[tuple[int, str]] = [(recording.marked_ns, f"O->>Z: create /admin/delete_topics/{TOPIC}")]
    for step in steps:
        arrow = WORDS[step.key].arrow
        if step.to_brokers:
            count = len(step.exchanges)
            answers = sorted({_answer(each) for each in step.exchanges})
            lines.append((step.began_ns, f"C->>B: {arrow} (to {count})"))
            asked = arrow.replace(": ", " ")
            lines.append((step.ended_ns, f"B-->>C: {', '.join(answers)} to {asked} (from {count})"))
        elif step.key in ("noticed", "aftermath"):
            lines.append((step.began_ns, f"Z-->>C: {arrow}"))
        else:
            lines.append((step.began_ns, f"C->>Z: {arrow}"))
    renamed, gone = _disk_times(recording)
    lines += [(renamed[-1], "Note over B: directories renamed"), (gone[-1], "Note over B: last byte gone")]
    return [line for _, line in sorted(lines, key=lambda each: each[0])]


def _answer(exchange: Exchange) -> str:
    errors = [exchange.answer["error"], *(each["error"] for each in exchange.answer.get("partitions", ()))]
    return "no error" if not any(errors) else f"errors {errors}"


def _disk_times(recording: Recording) -> tuple[list[int], list[int]]:
    """When each broker's directory had been renamed, and when it was gone; both sorted."""
    renamed: dict[int, int] = {}
    gone: dict[int, int] = {}
    for each in recording.directories:
        if any(name.endswith("-delete") for name in each.found):
            renamed.setdefault(each.broker, each.time_ns)
        if not each.found:
            gone[each.broker] = each.time_ns
    return sorted(renamed.values()), sorted(gone.values())


def _renamed_or_gone(seen: Iterable[Directories]) -> Iterator[Directories]:
    """Of each broker, what was seen when the names of its directories had changed."""
    names: dict[int, set[str]] = {}
    for each in seen:
        if names.get(each.broker) != (found := set(each.found)):
            names[each.broker] = found
            yield each


def _znodes(znodes: Mapping[str, bytes | None]) -> Iterator[tuple[str, str]]:
    for path, data in znodes.items():
        yield f"`{path}`", "(none)" if data is None else f"`{data.decode()}`"


def _found(found: Mapping[str, int]) -> str:
    return ", ".join(f"`{name}`, {size:,} bytes" for name, size in found.items()) or "nothing"


def _step(recording: Recording, step: Step) -> str:
    words = WORDS[step.key]
    head = [f"### {_ms(recording, step.began_ns)}: {words.title}", paragraph(words.why)]
    if not step.to_brokers:
        return "\n\n".join([*head, *(_with_zookeeper(recording, each) for each in step.exchanges)])
    first = step.exchanges[0]
    answers = (
        (
            each.peer.removeprefix("broker "),
            each.body["broker_epoch"],
            _ms(recording, each.time_ns),
            _ms(recording, each.answered_ns or each.time_ns),
            f"`{json.dumps(each.answer)}`",
        )
        for each in sorted(step.exchanges, key=lambda each: each.peer)
    )
    body = BROKER_STEP.format(what=first.what, peer=first.peer, body=_compact(first.body), answers=_rows(answers))
    return "\n\n".join([*head, body])


def _with_zookeeper(recording: Recording, each: Exchange) -> str:
    answered = ""
    if each.to_server:
        answered_at = _ms(recording, each.answered_ns or each.time_ns)
        answered = f", answered at {answered_at} with `{json.dumps(each.answer)}`"
    return f"{_ms(recording, each.time_ns)}, {each.what}{answered}:\n\n```json\n{_compact(each.body)}\n```"


def _compact(value: Any, indent: int = 0) -> str:
    """JSON in which what fits on a line is on one."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= _WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    inside = " " * (indent + 2)
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {_compact(item, indent + 2)}" for key, item in value.items()]
        return "{\n" + ",\n".join(inside + item for item in items) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(inside + _compact(item, indent + 2) for item in value) + "\n" + " " * indent + "]"


def _states(recording: Recording) -> Iterator[tuple[str, str, str]]:
    for entry in recording.records:
        at, data = f"{entry.time_ms - recording.marked_ns / 1e6:+.0f} ms", entry.record.data
        if entry.record.subject != f"topic/{TOPIC}":
            continue
        if "after" in data:
            yield at, _who(data), f"{data['before']} → {data['after']}"
        elif entry.record.type is EventRecordType.DELETION_PHASE:
            yield at, "topic", f"**{data['phase']}**"


def _who(data: Mapping[str, JsonValue]) -> str:
    """Return whose state changed: an answer's one replica, or those that a transition names."""
    match data:
        case {"machine": "partition"}:
            return "partition"
        case {"replicas": dict(replicas)}:
            return f"replicas on {', '.join(replicas)}"
        case _:
            return f"replica on {data['broker']}"


def main() -> int:
    """Record a deletion and write the page."""
    try:
        text = page(asyncio.run(record(TOPIC_ID)))
    except RecordingFailed as failed:
        print(f"the deletion could not be recorded: {failed}", file=sys.stderr)
        return 1
    PAGE.write_text(text)
    print(f"wrote {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
