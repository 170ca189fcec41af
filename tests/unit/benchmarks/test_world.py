"""What a phase of a large cluster costs is counted from the core's own effects, and grows with what there is to do."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from benchmarks.documents import Document, read
from benchmarks.provenance import MEASURED
from benchmarks.world import growth, page
from benchmarks.world.__main__ import main, merged
from benchmarks.world.measure import PARTS, Cost, calls, measure
from benchmarks.world.plan import QUICK, Size

CORE: Final = "controller/core/"


@functools.cache
def costs(size: Size) -> dict[str, Cost]:
    return {cost.phase: cost for part in PARTS for cost in measure(size, part)}


def executed_instructions(size: Size, part: str) -> int:
    """How many instructions of the core's Python code a part's phases execute."""
    count = 0

    def in_core(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "opcode"
        return in_core

    def on_call(frame: FrameType, _event: str, _argument: object) -> Any:
        if CORE not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return in_core

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        measure(size, part)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    "large, small",
    [
        pytest.param(Size(40, 3, 400), Size(40, 3, 40), id="brokers"),
        pytest.param(Size(400, 3, 4), Size(40, 3, 4), id="topics"),
        pytest.param(Size(4, 300, 4), Size(4, 30, 4), id="partitions of a topic"),
    ],
)
def test_the_cores_work_grows_no_faster_than_the_axis(large: Size, small: Size, part: str) -> None:
    """A list of all brokers for each topic and answer is work that shows in no effect."""
    assert executed_instructions(large, part) <= 10 * executed_instructions(small, part)


@pytest.mark.parametrize(
    "large, small, factor",
    [
        pytest.param(Size(4, 3, 40), Size(4, 3, 4), 10, id="brokers"),
        pytest.param(Size(40, 3, 4), Size(4, 3, 4), 10, id="topics"),
        pytest.param(Size(4, 30, 4), Size(4, 3, 4), 10, id="partitions of a topic"),
    ],
)
def test_nothing_that_is_counted_grows_faster_than_the_axis(large: Size, small: Size, factor: int) -> None:
    grown = costs(large)
    for phase, before in costs(small).items():
        after = grown[phase]
        # Each broker is sent a list of all brokers: those bytes are quadratic, as with Kafka.
        sized = () if large.brokers > small.brokers else ("wire_bytes",)
        for what in ("events", "effects", "requests", "reads", "operations", *sized):
            assert getattr(after, what) <= factor * getattr(before, what), f"{what} of {phase}"


def test_requests_and_znodes_are_those_of_the_cluster() -> None:
    size = Size(4, 5, 3)
    found = costs(size)
    assert list(found) == list(growth.PHASES)
    # Each multi has the fence. A partition has two znodes; a topic has the parent of its partitions and, at the end,
    # also its own znode, its configuration and its marker.
    created, deleted = found["creation"], found["deletion"]
    assert created.operations == created.multis + 2 * size.partitions + size.topics
    assert deleted.operations == deleted.multis + 2 * size.partitions + 4 * size.topics
    assert found["failover"].reads >= size.partitions + size.topics + size.brokers
    # LeaderAndIsr and UpdateMetadata to each broker.
    assert created.requests == 2 * size.brokers
    assert created.frames == created.requests
    assert created.largest_frame_bytes < created.wire_bytes


@pytest.fixture(scope="module")
def quick() -> Document:
    """What a quick run tells as JSON."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["--quick", "--json"]) == 0
    found: Document = json.loads(out.getvalue())
    return found


def test_the_table_has_each_size_once_and_a_run_replaces_its_sizes(quick: Document) -> None:
    found = quick
    sizes = {size for axis in QUICK for size in axis.sizes}
    assert "\n".join(page._table(page._newest(found["rows"]))).count("\n|") == 1 + len(sizes)
    again = merged(found, [{**found["rows"][0], "phases": []}])
    assert [len(row["phases"]) for row in again["rows"]] == [0, *(4 for _ in found["rows"][1:])]


def test_a_row_keeps_the_origin_that_it_was_measured_with(quick: Document) -> None:
    old = {"when": "2020-02-02", "machine": {"processor": "one core"}, "versions": {"Lethe": "0123456-dirty"}}
    first, *others = quick["rows"]
    again = merged({"rows": [first | {MEASURED: old}, *others]}, others)
    text = page.page(again)
    assert "* 20×10 on 3: measured on 2020-02-02: one core; Lethe 0123456 with uncommitted changes." in text
    assert page.page(merged(again, [])) == text
    assert "0123456" not in page.page(merged(again, [first])), "it is measured again"
    assert all("Python" in row[MEASURED]["versions"] for row in quick["rows"])


def test_the_table_has_the_effects_of_all_phases(quick: Document) -> None:
    row = quick["rows"][0]
    effects = sum(phase["effects"] for phase in row["phases"])
    names, _, first, *_ = page._table(quick["rows"])
    assert first.split("|")[[cell.strip() for cell in names.split("|")].index("effects")] == f"{effects:,}"


def test_of_a_size_on_two_axes_the_newer_row_is_shown() -> None:
    size = Size(20, 10, 3)._asdict()
    earlier = {"axis": "brokers", **size, MEASURED: {"when": "2026-01-02"}}
    newer = {"axis": "partitions", **size, MEASURED: {"when": "2026-01-03"}}
    assert page._newest([earlier, newer]) == page._newest([newer, earlier]) == [newer]


def test_wanted_values_are_judged_by_what_was_measured() -> None:
    def row(core_s: float, **further: float) -> page.Row:
        phases = [{"phase": "deletion", "core_s": core_s}]
        return {"axis": "brokers", **Size(2_000, 50, 3)._asdict(), "phases": phases, **further}

    missed, reached = "1.51 s | **missed** |", "1.5 s | reached |"
    assert missed in "\n".join(page._wanted([row(1.51)]))
    assert reached in "\n".join(page._wanted([row(1.5)]))
    assert "350 bytes | 351 bytes | **missed** |" in "\n".join(page._wanted([row(1.5, traced_held_bytes=351.0)]))
    assert "350 bytes | – | not measured |" in "\n".join(page._wanted([row(1.5)]))


def measured(
    size: Size, core_s: float, effects: int, axis: str = "topics", called: int | None = None, **seconds: float
) -> page.Row:
    counted = {"effects": effects, "reads": 2, "operations": 2, "requests": 2, "wire_bytes": 2}
    counted |= {} if called is None else {"calls": called}
    phases = [{"phase": name, "core_s": seconds.get(name, core_s), **counted} for name in growth.PHASES]
    return {"axis": axis, **size._asdict(), "phases": phases}


def test_growth_is_the_largest_size_by_the_smallest() -> None:
    rows = [measured(Size(20, 5, 10), 1.0, 10), measured(Size(60, 5, 10), 9.0, 10)]
    rows.append(measured(Size(200, 5, 10), 10.0, 101, deletion=10.1))
    lines = growth.page(rows)
    sizes, seconds = "topics | 20×5 on 10 | 200×5 on 10 | 10.0×", "10.0× | 10.0× | 10.0× | **10.1×**"
    assert lines[2] == f"| {sizes} | {seconds} | – | **10.1×** | 1.0× | 1.0× | 1.0× | **missed**: deletion |"
    assert growth.UNEXPLAINED in lines[4]


def test_growth_along_brokers_is_linear_up_to_the_factor_of_brokers() -> None:
    rows = [measured(Size(20, 5, 3), 1.0, 10, "brokers"), measured(Size(20, 5, 30), 9.9, 10, "brokers")]
    lines = growth.page(rows)
    assert lines[2].startswith("| brokers | 20×5 on 3 | 20×5 on 30 | 10.0× | 9.9× |")
    assert lines[2].endswith("| reached |")
    assert growth.UNEXPLAINED not in lines[4]


def test_one_size_has_no_growth_and_a_size_of_two_axes_shows_its_spread() -> None:
    one = measured(Size(20, 5, 10), 1.0, 10)
    assert growth.page([one]) == growth.page([one, measured(Size(20, 5, 10), 2.0, 10, "all of it")]) == []
    rows = [one, measured(Size(60, 5, 10), 2.0, 10), measured(Size(20, 5, 10), 1.5, 10, "partitions")]
    assert "20×5 on 10 was measured 2 times: failover 1.00 to 1.50 s," in growth.page(rows)[4]


def test_what_a_partition_takes_is_traced(quick: Document) -> None:
    for row in quick["rows"]:
        assert 0 < row["traced_held_bytes"] < row["traced_peak_bytes"]
        assert f"{row['traced_held_bytes']:,.0f}/{row['traced_peak_bytes']:,.0f}" in page.page(quick)


def test_what_was_stored_is_shown(tmp_path: Path) -> None:
    rows = [{"axis": "brokers", **Size(20, 10, 3)._asdict(), "phases": []}]
    (tmp_path / page.JSON_NAME).write_text(json.dumps({"rows": rows}))
    assert read(tmp_path / page.JSON_NAME)["rows"] == rows


def test_calls_are_counted_in_each_phase_and_grow_no_faster_than_the_topics() -> None:
    small, large = calls(Size(40, 3, 4)), calls(Size(400, 3, 4))
    assert list(small) == list(growth.PHASES)
    assert all(0 < large[phase] <= 10 * small[phase] for phase in growth.PHASES)


@pytest.mark.parametrize(
    "after, said",
    [
        (60, growth.LINEAR_CALLS.format(most="no more than the size")),
        (62, growth.LINEAR_CALLS.format(most="by 3.3 % more than the size at most")),
        (66, growth.UNEXPLAINED),
        (None, growth.UNEXPLAINED),
    ],
)
def test_time_that_grows_faster_is_explained_only_where_the_calls_do_not(after: int | None, said: str) -> None:
    rows = [measured(Size(20, 5, 10), 1.0, 1, called=20), measured(Size(60, 5, 10), 3.2, 1, called=after)]
    assert said in "\n".join(growth.page(rows))
    as_fast = measured(Size(60, 5, 10), 3.0, 1, called=60)
    assert growth.LINEAR_CALLS.split("{")[0] not in "\n".join(growth.page([rows[0], as_fast]))
