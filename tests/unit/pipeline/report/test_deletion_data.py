"""The data of all deletions: what the script gets, and that it is complete and harmless."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest

from lethe.pipeline.report import deletion_data, timeline
from lethe.pipeline.report.deletion_data import MAX_ITEMS, columns, pack
from lethe.pipeline.report.values import BrokerReplicas, Deletions, DeletionSpan, Interval

BEGIN = 1_795_286_668_000
_NOTHING: dict[str, Any] = dict.fromkeys(DeletionSpan._fields) | {
    "held": (),
    "waited_for": (),
    "controllers": (),
    "owed_by": (),
}


def span(topic: str = "orders", **known: Any) -> DeletionSpan:
    times = {"marked_at": BEGIN, "queued_at": BEGIN + 5, "znodes_gone_at": BEGIN + 900, "outcome": "done", "span": 1}
    return DeletionSpan(**{**_NOTHING, "topic": topic, **times, **known})


def made(*spans: DeletionSpan, deletions: Deletions | None = None) -> dict[str, Any]:
    return columns(spans, deletions or Deletions(), timeline.plan(spans))


def test_every_column_has_a_value_for_each_deletion() -> None:
    data = made(span(), span("payments", outcome="open", znodes_gone_at=None), DeletionSpan(**_NOTHING))
    shared = {"classes", "causeNames", "outcomeNames", "refusals", "times"}
    assert {len(column) for name, column in data.items() if name not in shared} == {3}
    assert data["at"] == [BEGIN, BEGIN, None]
    assert data["times"] == {"marked": [0, 0, None], "queued": [5, 5, None], "znodes gone": [900, None, None]}
    assert [data["outcomeNames"][each] for each in data["outcome"]] == [
        ["done", "good"],
        ["open", "attention"],
        ["open", "attention"],
    ]


def test_a_bar_has_the_parts_that_the_page_draws_without_the_script() -> None:
    one = span(waited_for=(Interval("broker_to_return", BEGIN + 100, BEGIN + 500, 400, 3, 2),))
    plan = timeline.plan([one])
    data = columns([one], Deletions(), plan)
    (flat,) = data["bar"]
    drawn = [(data["classes"][flat[n]][0], flat[n + 1], flat[n + 2]) for n in range(0, len(flat), 3)]
    assert drawn == [(part.class_, round(part.x * 10), round(part.width * 10)) for part in timeline.parts(plan, one)]
    assert [class_ for class_, _, _ in drawn] == ["p-held", "p-started", "p-wait"]


def test_what_a_deletion_waited_for_can_be_chosen() -> None:
    wait = Interval("broker_to_return", BEGIN, None, None, 3, 2)
    data = made(
        span(held=(Interval("PAUSED", BEGIN, BEGIN + 5, 5),)), span(waited_for=(wait,)), span(owed_by=(3,)), span()
    )
    names = [[data["causeNames"][each] for each in found] for found in data["causes"]]
    assert names == [
        ["held: PAUSED"],
        ["waited for broker 3", "waited: broker_to_return"],
        ["still owed by broker 3"],
        [],
    ]
    assert data["waits"][1] == ["broker 3, broker_to_return, 2 replicas, still"]


def test_of_many_brokers_those_that_matter_are_kept_and_the_others_counted() -> None:
    rows = tuple(BrokerReplicas(broker, 2, 2, BEGIN + broker, 1, 0, None) for broker in range(40))
    lacking = BrokerReplicas(40, 2, 1, None, 4, 3, "KAFKA_STORAGE_ERROR")
    one = span()
    data = made(one, deletions=Deletions(brokers={one.key: (*rows, lacking)}))
    (brokers,) = data["brokers"]
    assert [row[0] for row in brokers] == [*range(40 - MAX_ITEMS + 1, 41)]
    assert brokers[-1] == [40, 2, 1, None, 4, 3, 0]
    assert data["refusals"] == ["KAFKA_STORAGE_ERROR"]
    assert data["moreBrokers"] == [25]


def test_names_are_text_that_shows_what_is_hidden() -> None:
    data = made(span("</script>\u202e"))
    assert data["topic"] == ["</script>\\u202e"]


def test_the_data_is_packed_as_far_as_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = [span(f"orders-{number:05d}", freed_bytes=number**3) for number in range(2_000)]
    plan = timeline.plan(spans)
    whole = pack(spans, Deletions(), plan, "show")
    read = json.loads(zlib.decompress(base64.b64decode(whole.text)))
    assert (whole.deletions, len(read["topic"]), read["command"]) == (2_000, 2_000, "show")
    monkeypatch.setattr(deletion_data, "MAX_CHARS", len(whole.text) // 3)
    some = pack(spans, Deletions(), plan, "show")
    read = json.loads(zlib.decompress(base64.b64decode(some.text)))
    assert 300 < some.deletions < 700
    assert read["topic"] == [each.topic for each in spans[: some.deletions]]
