"""Whatever bytes come, each parser ends in a value or in its own refusal, soon and without taking memory for lies.

`make fuzz` does the same for millions of frames.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.protocol.kafka.codec import decode_request
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.framing import ProtocolError
from tests.fuzz import core, seeds
from tests.fuzz.kept import Kept, as_line, kept
from tests.fuzz.mutation import mutated
from tests.fuzz.search import Tally, check, search
from tests.fuzz.target import Wrong
from tests.fuzz.targets import BY_NAME, TARGETS

KEPT = list(kept())
PARSERS = [target for target in TARGETS if target.name != "controller's core"]
REQUESTS = seeds.requests(random.Random(1), each=1)


@pytest.mark.parametrize("case", KEPT, ids=[f"{case.target.name}-{case.why}" for case in KEPT])
def test_a_kept_frame_is_handled_as_it_must_be(case: Kept) -> None:
    case.target.make_seeds(random.Random(0))
    check(case.target, case.data, traced=False, tally=Tally())  # imports what the message needs
    assert check(case.target, case.data, traced=True, tally=Tally()) is None


def test_damaged_frames_at_every_parser() -> None:
    report = search(1, 4_000, targets=PARSERS)
    assert report.findings == []
    assert {name for name, tally in report.tallies.items() if not tally.frames > tally.understood > 0} == set()


def test_requests_with_any_values_at_the_core() -> None:
    """One of each API and version: a short search would feed the first ones only."""
    target, tallies = BY_NAME["controller's core"], {api: Tally() for api in core.APIS}
    found = [
        check(target, data, traced=False, tally=tallies[ApiKey(int.from_bytes(data[:2]))])
        for data in core.requests(random.Random(1), each=1)
    ]
    assert [finding for finding in found if finding is not None] == []
    assert [api for api, tally in tallies.items() if not tally.understood] == []


@settings(max_examples=300)
@given(frame=st.sampled_from(REQUESTS), body=st.binary(max_size=200))
def test_any_body_behind_a_valid_header(frame: bytes, body: bytes) -> None:
    head = frame[:4] + struct.pack(">ih", 1, -1)
    for data in (head + body, head + b"\0" + body, body):
        assert check(BY_NAME["requests"], data, traced=False, tally=Tally()) is None


@settings(max_examples=300)
@given(frame=st.sampled_from(REQUESTS), data=st.data())
def test_a_request_that_is_cut_short_is_refused(frame: bytes, data: st.DataObject) -> None:
    with pytest.raises(ProtocolError):
        decode_request(frame[: data.draw(st.integers(0, len(frame) - 1))])


def test_one_seed_gives_the_same_frames() -> None:
    first, second = (
        [mutated(REQUESTS[0], draw, REQUESTS) for _ in range(50)] for draw in (random.Random(3), random.Random(3))
    )
    assert first == second
    assert len(set(first)) > 40


# --- the fuzzer finds what it looks for -------------------------------------------------------------------------------


FRAME = REQUESTS[0]


def trusting(_data: bytes) -> bool:
    """A reader that takes memory for the length that its frame announces."""
    return len(bytearray(1_000_000)) > 0


def leaking(data: bytes) -> bool:
    """A reader that lets an exception of Python out."""
    return bool(struct.unpack_from(">h", data, len(data)))


def slow(_data: bytes) -> bool:
    """A reader that counts to the number in its frame."""
    return sum(range(4_000_000)) > 0


def forgetful(data: bytes) -> bool:
    """A reader whose value is another one when it is read again."""
    raise Wrong("one value was written, and another one read again")


@pytest.mark.parametrize(
    "reader, found",
    [(trusting, "bytes of memory"), (leaking, "error: unpack_from"), (slow, "it takes"), (forgetful, "read again")],
)
def test_a_planted_bug_is_found_and_can_be_kept(reader: Callable[[bytes], bool], found: str) -> None:
    target = replace(BY_NAME["requests"], run=reader, base_s=0.005)
    finding = check(target, FRAME, traced=reader is not slow, tally=Tally())
    assert finding is not None
    assert found in finding.what
    name, data, why = as_line(finding.target, finding.data, finding.what).split(" | ")
    assert (BY_NAME[name], bytes.fromhex(data)) == (BY_NAME["requests"], FRAME)
    assert found in why
