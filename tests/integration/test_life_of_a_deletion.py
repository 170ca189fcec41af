"""The tool behind docs/life-of-one-deletion.md still works on a real cluster."""

from __future__ import annotations

import pytest

from tests.fakes.life_page import problems
from tools.life_of_a_deletion import TOPIC_ID, exchanges_of, page, steps_of
from tools.life_run import BROKERS, record


@pytest.mark.zookeeper
@pytest.mark.processes
@pytest.mark.slow
async def test_a_deletion_is_recorded_and_told() -> None:
    recording = await record(TOPIC_ID)
    assert problems(page(recording)) == []
    steps = {step.key: step for step in steps_of(exchanges_of(recording))}
    for key in ("tombstone", "delete"):
        assert sorted(each.peer for each in steps[key].exchanges) == [f"broker {number}" for number in BROKERS]
    # What makes a deletion safe, as seen from outside: tombstones and acknowledgements first, then the znodes.
    removed_ns = steps["removal"].began_ns
    assert steps["tombstone"].ended_ns < removed_ns
    assert steps["delete"].ended_ns < removed_ns
    operations = steps["removal"].exchanges[0].body
    assert operations[0]["op"] == "check"
    assert operations[-1]["path"] == "/admin/delete_topics/orders"
