"""Formats a survey's counts for the textfile collector of Prometheus' node exporter (`lethe survey --textfile FILE`).

Findings are counted by reason and by broker, so the number of series does not depend on the number of findings. A
reason without findings is 0, so that its alert ends, if everything was seen where there could be some; else it has no
series. The file is replaced atomically, and only after a successful
survey; alert on its timestamp as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from lethe.protocol.findings import Reason
from lethe.survey.leftovers import Leftover, would_be_found
from lethe.survey.views import Survey


class MetricFamily(NamedTuple):
    """One metric family of the file."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()


FINDINGS: Final = MetricFamily(
    "lethe_survey_findings",
    "What is left over, by what is to be made of it and why; `lethe survey` lists it",
    ("standing", "reason"),
)
FINDING_BYTES: Final = MetricFamily("lethe_survey_finding_bytes", "Bytes on disk in it", ("standing", "reason"))
BROKER_FINDINGS: Final = MetricFamily(
    "lethe_survey_broker_findings", "The same by broker, where it is in a cache or on a disk", ("standing", "broker_id")
)
PROBLEMS: Final = MetricFamily(
    "lethe_survey_problems",
    "What the survey could not see: brokers that are down, directories and znodes that it may not read. What has no "
    "findings has no count then, since there may be some",
)
TAKEN: Final = MetricFamily(
    "lethe_survey_timestamp_seconds", "When the survey was taken, in seconds since 1970; old: it is not run any more"
)
TOOK: Final = MetricFamily("lethe_survey_duration_seconds", "How long that took")

GAUGES: Final = (FINDINGS, FINDING_BYTES, BROKER_FINDINGS, PROBLEMS, TAKEN, TOOK)

Row = tuple[tuple[str, ...], float]


def format_textfile(taken: Survey, findings: Sequence[Leftover]) -> str:
    """Return the file's text in Prometheus' format."""
    found = {finding.reason for finding in findings}
    counts = dict.fromkeys((each for each in Reason if each in found or would_be_found(taken, each)), 0)
    sizes = dict.fromkeys(counts, 0)
    brokers: dict[tuple[str, str], int] = {}
    for finding in findings:
        counts[finding.reason] += 1
        sizes[finding.reason] += finding.size_bytes
        if finding.broker is not None:
            key = (finding.standing.code, str(finding.broker))
            brokers[key] = brokers.get(key, 0) + 1
    return "".join(
        (
            *_family(FINDINGS, (((r.standing.code, r.code), n) for r, n in counts.items())),
            *_family(FINDING_BYTES, (((r.standing.code, r.code), n) for r, n in sizes.items())),
            *_family(BROKER_FINDINGS, sorted(brokers.items())),
            *_family(PROBLEMS, [((), len(taken.problems))]),
            *_family(TAKEN, [((), taken.taken_at_ms / 1000)]),
            *_family(TOOK, [((), taken.took_ms / 1000)]),
        )
    )


def _family(gauge: MetricFamily, rows: Iterable[Row]) -> Iterator[str]:
    yield f"# HELP {gauge.name} {gauge.meaning}\n# TYPE {gauge.name} gauge\n"
    for values, number in rows:
        labels = ",".join(f'{name}="{value}"' for name, value in zip(gauge.labels, values, strict=True))
        yield f"{gauge.name}{{{labels}}} {number!r}\n" if labels else f"{gauge.name} {number!r}\n"
