"""The dashboard of what surveys found, from the file that `lethe survey --textfile` writes.

Surveys come each hour or more seldom, so what is shown is the latest of six hours, as in the alerts; of several hosts'
surveys the greatest number, since each sees ZooKeeper and the caches, and its own disks.
"""

from __future__ import annotations

from typing import Final

from lethe.protocol.findings import Place, Reason, Standing
from lethe.survey.textfile import BROKER_FINDINGS, FINDING_BYTES, FINDINGS, PROBLEMS, TAKEN, TOOK
from tools.dashboard import Dashboard, Kind, Panel, Query, Row
from tools.dashboard_queries import AND, C

LEFT_OVER: Final = 'standing="left_over"'
SET_ASIDE: Final = 'standing="set_aside"'
PENDING: Final = 'standing="pending"'
LACKING: Final = 'standing=~"missing|incomplete"'
SEEN: Final = "[6h]"
STALE_S: Final = 6 * 3600
AGE: Final = f"time() - max by (cluster) (last_over_time({TAKEN.name}{C}[14d]))"
ALERTS: Final = "Lethe(Leftovers|Topics|Survey|Directories).*"


def latest(metric: str, by: str, selector: str = "") -> str:
    """What the latest survey of each cluster says, by these labels too."""
    chosen = f"{{{AND},{selector}}}" if selector else C
    return f"max by (cluster, {by}) (last_over_time({metric}{chosen}{SEEN}))"


def _in(place: Place) -> Query:
    reasons = "|".join(r.code for r in Reason if r.place is place and r.standing is Standing.LEFT_OVER)
    found = latest(FINDINGS.name, "reason", f'{LEFT_OVER},reason=~"{reasons}"')
    return Query(f"sum({found})", place.value)


LEFTOVERS: Final = Dashboard(
    "lethe-leftovers",
    "Lethe: leftovers",
    "What surveys found of topics that are gone, what topics lack that are to stay, and what could not be seen.",
    (
        Panel(
            "Left over",
            Kind.STAT,
            "none",
            (Query(f"sum({latest(FINDINGS.name, 'reason', LEFT_OVER)})"),),
            "Of topics that do not exist. `lethe survey` lists it with its places.",
            width=4,
            height=4,
            red_at=1,
        ),
        Panel(
            "Bytes in it",
            Kind.STAT,
            "bytes",
            (Query(f"sum({latest(FINDING_BYTES.name, 'reason', LEFT_OVER)})"),),
            "On disk.",
            width=4,
            height=4,
        ),
        Panel(
            "Missing",
            Kind.STAT,
            "none",
            (Query(f"sum({latest(FINDINGS.name, 'reason', LACKING)})"),),
            "Parts of topics that are to stay, as the alert LetheTopicsDamaged.",
            width=4,
            height=4,
            red_at=1,
        ),
        Panel(
            "Set aside",
            Kind.STAT,
            "none",
            (Query(f"sum({latest(FINDINGS.name, 'reason', SET_ASIDE)})"),),
            "Directories that a broker kept because it could not tell whose they are, as far as disks were read.",
            width=4,
            height=4,
        ),
        Panel(
            "Could not be seen",
            Kind.STAT,
            "none",
            (Query(f"sum(max by (cluster) (last_over_time({PROBLEMS.name}{C}{SEEN})))"),),
            "0: the survey was complete. Otherwise nothing is said of what it did not see.",
            width=4,
            height=4,
            red_at=1,
        ),
        Panel(
            "Latest survey, age",
            Kind.STAT,
            "s",
            (Query(f"max({AGE})"),),
            "Of the cluster that has waited longest; red as the alert LetheSurveyStale. None: no survey has come.",
            width=4,
            height=4,
            red_at=STALE_S,
        ),
        Row("What"),
        Panel(
            "Left over, by reason",
            Kind.BARS,
            "short",
            (Query(f"sum by (reason) ({latest(FINDINGS.name, 'reason', LEFT_OVER)}) > 0", "{{reason}}"),),
            "No data: nothing. docs/surveys.md says what to do about each.",
        ),
        Panel(
            "Left over, in the course of time",
            Kind.STACK,
            "short",
            (Query(f"sum by (reason) ({latest(FINDINGS.name, 'reason', LEFT_OVER)})", "{{reason}}"),),
            "By reason. What comes back after it was removed has a cause that goes on.",
        ),
        Panel(
            "Missing or incomplete",
            Kind.LINES,
            "short",
            (Query(f"sum by (reason) ({latest(FINDINGS.name, 'reason', LACKING)})", "{{reason}}"),),
            "A topic that is being made is whole at the next survey.",
        ),
        Panel(
            "Deletions under way",
            Kind.LINES,
            "short",
            (Query(f"sum by (reason) ({latest(FINDINGS.name, 'reason', PENDING)})", "{{reason}}"),),
            "Nothing to worry about, unless it stays: `lethe explain --all`.",
        ),
        Row("Where"),
        Panel(
            "Left over, by place",
            Kind.STACK,
            "short",
            tuple(map(_in, Place)),
            "In ZooKeeper, in what brokers tell clients, on disks.",
        ),
        Panel(
            "By broker",
            Kind.LINES,
            "short",
            (
                Query(
                    # Without the six hours: a broker of which nothing is found any more has no series, which says so.
                    f"sum by (broker_id, standing) (max by (cluster, broker_id, standing) ({BROKER_FINDINGS.name}{C}))",
                    "broker {{broker_id}}: {{standing}}",
                ),
            ),
            "What is in a cache or on a disk. No data: nothing.",
        ),
        Panel(
            "Bytes on disk",
            Kind.STACK,
            "bytes",
            (
                Query(
                    f"sum by (standing) ({latest(FINDING_BYTES.name, 'standing, reason')})",
                    "{{standing}}",
                ),
            ),
            "pending: deleted, and not removed yet.",
        ),
        Panel(
            "Set aside by agents",
            Kind.LINES,
            "short",
            (Query(f"sum by (instance) (lethe_agent_set_aside_directories{C})", "{{instance}}"),),
            "As agents say it at the moment, without a survey; /state of the agent names them.",
        ),
        Row("The surveys"),
        Panel(
            "Age",
            Kind.LINES,
            "s",
            (Query(AGE, "{{cluster}}"),),
            "A saw: it falls each time that one comes.",
        ),
        Panel(
            "Not seen",
            Kind.LINES,
            "short",
            (Query(f"max by (instance) (last_over_time({PROBLEMS.name}{C}{SEEN}))", "{{instance}}"),),
            "By the host that looked: brokers that are down, directories that it may not read.",
        ),
        Panel(
            "Time that one takes",
            Kind.LINES,
            "s",
            (Query(f"max by (instance) (last_over_time({TOOK.name}{C}{SEEN}))", "{{instance}}"),),
            "By the host that looked.",
        ),
        Panel(
            "Alerts",
            Kind.TABLE,
            "none",
            (Query(f'ALERTS{{alertname=~"{ALERTS}",alertstate=~"firing|pending"}}'),),
            "docs/runbook.md has an entry for each.",
        ),
    ),
    since="now-7d",
    refresh="1m",
)
