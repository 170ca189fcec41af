"""Plays the script on each side, and makes a row of each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from tests.judge.clients import clients_of
from tests.judge.compare import Compared, Difference, Verdict, compare
from tests.judge.java_steps import JavaSteps
from tests.judge.normalise import normalised
from tests.judge.sides import cluster_of
from tests.judge.step import Answer, Client, Outcome, Side, Step

OnOutcome = Callable[[Outcome], None]
MOST_LINES: Final = 8
MOST_CHARACTERS: Final = 240
"""What is kept of an answer of Kafka's: enough to see what it was."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What a side answered to a step, beside Kafka's controller."""

    verdict: str
    took_s: float | None
    """None if it was not asked."""
    reason: str = ""
    changes: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        return Verdict(self.verdict).is_failure

    @property
    def was_run(self) -> bool:
        return Verdict(self.verdict) is not Verdict.NOT_RUN


@dataclass(frozen=True, slots=True)
class Row:
    """A step and what became of it."""

    client: str
    step: str
    kafka_s: float | None
    kafka: tuple[str, ...]
    """Exit code and lines of Kafka's controller, long answers cut; empty if it was not asked or did not answer."""
    sides: Mapping[str, Cell]
    """By the name of the side."""

    def document(self) -> dict[str, Any]:
        """The form of docs/judge.json."""
        return asdict(self)

    @classmethod
    def read(cls, document: dict[str, Any]) -> Self:
        """Return the row that `document` was made of."""
        sides = {
            name: Cell(cell["verdict"], cell["took_s"], cell["reason"], tuple(cell["changes"]))
            for name, cell in document["sides"].items()
        }
        return cls(document["client"], document["step"], document["kafka_s"], tuple(document["kafka"]), sides)


async def play(side: Side, steps: Sequence[Step], java: JavaSteps, directory: Path, on_outcome: OnOutcome) -> None:
    """Start a cluster of this kind, and hand on what its clients say to each step."""
    kafka = java.kafka[Client.TOOLS]
    cluster = cluster_of(side, kafka, directory / side.value)
    async with clients_of(cluster, java, directory / f"clients-{side.value}") as clients:
        for step in steps:
            outcome = await clients.perform(step)
            _keep(directory / f"{side.value}.txt", step, outcome)
            on_outcome(outcome)


def _keep(file: Path, step: Step, outcome: Outcome) -> None:
    """Write down the whole answer, which `--keep` leaves there."""
    with file.open("a", encoding="utf-8") as said:
        said.write(f"# {step.name}\n")
        if isinstance(outcome, Answer):
            said.write(f"exit code {outcome.code}, {outcome.took_s:.1f} s\n" + "".join(f"{x}\n" for x in outcome.lines))
        else:
            said.write(f"not run: {outcome.why}\n")


def rows_of(
    steps: Sequence[Step], outcomes: Mapping[Side, Sequence[Outcome]], differences: Iterable[Difference]
) -> list[Row]:
    """Compare each side with Kafka's controller."""
    listed = tuple(differences)
    return [
        _row(step, {side: each[index] for side, each in outcomes.items()}, listed) for index, step in enumerate(steps)
    ]


def _row(step: Step, outcomes: Mapping[Side, Outcome], differences: Iterable[Difference]) -> Row:
    kafka = outcomes[Side.KAFKA]
    cells = {
        side.value: _cell(compare(step, side, kafka, outcome, differences), outcome)
        for side, outcome in outcomes.items()
        if side is not Side.KAFKA
    }
    return Row(step.client.value, step.name, _took(kafka), tuple(_said(step, kafka)), cells)


def _said(step: Step, kafka: Outcome) -> Iterator[str]:
    """What Kafka's controller said, as it is compared."""
    if isinstance(kafka, Answer) and not kafka.hangs:
        lines = normalised(kafka.lines, step.free)
        yield f"exit code {kafka.code}"
        yield from (line[:MOST_CHARACTERS] for line in lines[:MOST_LINES])
        if len(lines) > MOST_LINES:
            yield f"and {len(lines) - MOST_LINES} more lines"


def _cell(compared: Compared, outcome: Outcome) -> Cell:
    return Cell(compared.verdict.value, _took(outcome), compared.reason, compared.changes)


def _took(outcome: Outcome) -> float | None:
    return round(outcome.took_s, 1) if isinstance(outcome, Answer) else None
