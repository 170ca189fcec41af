"""Feeding damaged frames to the targets, and what may not happen.

    exception    none but the target's own refusals
    time         CPU time of this thread, in proportion to the frame
    memory       the peak of what Python allocates, in proportion to the frame; traced for some frames only
    again        what was understood is the same when it is written and read again (each target looks itself)

One seed gives the same frames on every machine.
"""

from __future__ import annotations

import contextlib
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.fuzz.mutation import mutated
from tests.fuzz.target import Target, Wrong
from tests.fuzz.targets import TARGETS

TRACED_EVERY: Final = 64
MEMORY_PER_BYTE: Final = 256
"""An array of empty structs takes a few bytes each in the frame, and some hundred each in Python."""
TIME_PER_BYTE_S: Final = 20e-6
TRIES: Final = 3
"""A frame is slow if it is slow each time: one measurement may contain a collection of garbage."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A frame that was not handled as it must be."""

    target: str
    data: bytes
    what: str

    def __str__(self) -> str:
        return f"{self.target}: {self.what}\n  {self.data.hex()}"


@dataclass(slots=True)
class Tally:
    """What was fed to one target."""

    frames: int = 0
    understood: int = 0
    size_bytes: int = 0
    peak_per_byte: float = 0.0
    """The most memory that a traced frame took, for each of its bytes; small frames are not counted."""


@dataclass(slots=True)
class Report:
    tallies: dict[str, Tally] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def frames(self) -> int:
        return sum(tally.frames for tally in self.tallies.values())


def _fed(target: Target, data: bytes) -> bool:
    try:
        return target.run(data)
    except target.refusals:
        return False


def problem_of(target: Target, data: bytes) -> tuple[str | None, bool]:
    """What is wrong with how the target handles these bytes, or None; and whether it understood them."""
    took_s, understood = 0.0, False
    for _ in range(TRIES):
        began_s = time.thread_time()
        try:
            understood = _fed(target, data)
        except Wrong as wrong:
            return str(wrong), True
        except Exception as error:  # noqa: BLE001 - any other exception is what is looked for
            return f"{type(error).__name__}: {error}", False
        took_s = time.thread_time() - began_s
        if took_s <= target.base_s + TIME_PER_BYTE_S * len(data):
            return None, understood
    return f"it takes {took_s * 1000:.0f} ms for {len(data)} bytes", understood


def peak_of(target: Target, data: bytes) -> int:
    """The most bytes that were allocated at once."""
    tracemalloc.start()
    try:
        _fed(target, data)
        return tracemalloc.get_traced_memory()[1]
    except Exception:  # noqa: BLE001 - `problem_of` tells it
        return 0
    finally:
        tracemalloc.stop()


def check(target: Target, data: bytes, *, traced: bool, tally: Tally) -> Finding | None:
    """Feed the bytes; a finding, if there is one."""
    problem, understood = problem_of(target, data)
    tally.frames += 1
    tally.understood += understood
    tally.size_bytes += len(data)
    if problem is None and traced:
        peak = peak_of(target, data)
        tally.peak_per_byte = max(tally.peak_per_byte, peak / len(data) if len(data) >= 512 else 0.0)
        if peak > target.base_bytes + MEMORY_PER_BYTE * len(data):
            problem = f"it takes {peak:,} bytes of memory for {len(data)}"
    return None if problem is None else Finding(target.name, data, problem)


def search(
    seed: int,
    frames: int,
    *,
    targets: Sequence[Target] = TARGETS,
    traced_every: int = TRACED_EVERY,
    progress: Callable[[int], None] = lambda _: None,
) -> Report:
    """Feed so many frames. Ends early after a hundred findings, and at Ctrl-C."""
    draw = random.Random(seed)
    report = Report({target.name: Tally() for target in targets})
    with contextlib.suppress(KeyboardInterrupt):
        for number, (target, data) in enumerate(_frames(draw, frames, targets), 1):
            traced = number % traced_every == 0
            finding = check(target, data, traced=traced, tally=report.tallies[target.name])
            if finding is not None:
                report.findings.append(finding)
                if len(report.findings) >= 100:
                    break
            if number % 1000 == 0:
                progress(1000)
    return report


def _frames(draw: random.Random, count: int, targets: Sequence[Target]) -> Iterator[tuple[Target, bytes]]:
    """The valid frames, then damaged ones."""
    seeds = {target.name: list(target.make_seeds(draw)) for target in targets}
    valid = [(target, target.wrap(data, draw)) for target in targets for data in seeds[target.name]]
    yield from valid[:count]
    weights = [target.weight for target in targets]
    for _ in range(count - len(valid)):
        (target,) = draw.choices(targets, weights)
        pool = seeds[target.name]
        yield target, target.wrap(mutated(draw.choice(pool), draw, pool), draw)
