"""Messages of a stopping controller about deleted topics that metadata caches may still show. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from lethe.controller.core.context import UnconfirmedDeletions
from lethe.protocol.counting import counted, plural, topics_listed
from lethe.protocol.journal import JsonValue
from lethe.protocol.vocabulary import BrokerId

MAX_NAMES: Final = 20


def waiting_words(left: UnconfirmedDeletions, grace_ms: int) -> str:
    """Return one line that names the brokers whose confirmation the controller awaits."""
    brokers = sorted({*left.gone, *left.marked})
    topics = {name for names in (*left.gone.values(), *left.marked.values()) for name in names}
    return (
        f"waiting up to {grace_ms / 1000:g} s for {_brokers(brokers)} to confirm that the metadata cache has dropped "
        f"{counted(len(topics), 'topic')}"
    )


def left_words(left: UnconfirmedDeletions) -> Iterator[str]:
    """Yield one line per broker and kind: the topics, and what to do."""
    for broker, names in left.gone.items():
        yield (
            f"broker {broker} has not confirmed that its metadata cache has dropped {topics_listed(names, MAX_NAMES)}, "
            "gone from ZooKeeper, so no later controller repeats the removal: see with lethe survey whether the broker "
            "still shows clients these topics; lethe rescue or a restart of the broker removes them"
        )
    for broker, names in left.marked.items():
        yield (
            f"broker {broker} has not confirmed that its metadata cache has dropped {topics_listed(names, MAX_NAMES)}, "
            "still marked for deletion, so the next controller continues; if that is one of Kafka's, run lethe survey "
            "afterwards"
        )
    for broker, names in left.ghosts.items():
        yield (
            f"the metadata cache of broker {broker} still shows {topics_listed(names, MAX_NAMES)} that ZooKeeper "
            "does not have. No controller of Kafka's has that dropped; lethe rescue or a restart of the broker does"
        )
    for broker, names in left.missed.items():
        yield (
            f"it is unknown whether the metadata cache of broker {broker} still shows "
            f"{topics_listed(names, MAX_NAMES)} that ZooKeeper does not have: the cache has not been seen since the "
            "broker's session ended. If its process is alive, look with lethe survey when it is registered again: "
            "lethe rescue or its restart cures that"
        )


def _brokers(ids: Sequence[BrokerId]) -> str:
    return f"{plural(len(ids), 'broker')} {', '.join(map(str, ids))}"


def as_json(left: UnconfirmedDeletions) -> dict[str, JsonValue]:
    """Return the same as JSON, for scripts."""
    return {
        "gone": _listed(left.gone),
        "marked": _listed(left.marked),
        "ghosts": _listed(left.ghosts),
        "missed": _listed(left.missed),
    }


def _listed(by_broker: Mapping[BrokerId, Sequence[str]]) -> list[JsonValue]:
    return [{"broker": broker, "topics": [*names]} for broker, names in by_broker.items()]


def from_json(document: object) -> UnconfirmedDeletions:
    """Parse what `as_json` wrote. Unknown and missing keys are accepted, since another release may have written
    them."""
    found = document if isinstance(document, Mapping) else {}
    return UnconfirmedDeletions(*(_read(found.get(field)) for field in UnconfirmedDeletions._fields))


def _read(listed: object) -> dict[BrokerId, tuple[str, ...]]:
    rows = [row for row in (listed if isinstance(listed, list) else []) if isinstance(row, Mapping)]
    return {
        BrokerId(row["broker"]): tuple(name for name in row["topics"] if isinstance(name, str))
        for row in rows
        if isinstance(row.get("broker"), int) and isinstance(row.get("topics"), list)
    }
