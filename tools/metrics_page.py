"""The page docs/metrics.md: what the controller and the agent measure, from their declarations."""

from __future__ import annotations

from collections.abc import Iterator

from lethe.broker.runtime.metrics import METRICS
from lethe.controller.runtime import declared
from lethe.controller.runtime.declaring import Metric
from lethe.survey.textfile import GAUGES

CONTROLLER = """\
# Metrics of the controller

Generated from `controller/runtime/declared.py` and what that names; `make docs` writes it.

`lethe controller` serves them at `/metrics` in Prometheus' text format. What Kafka's own controller
measures has the name under which the usual configuration of the Prometheus JMX exporter (lower-case output
names) shows it, so dashboards and alerts made for Kafka keep working. A *summary* has `_count`, `_sum` and a
series per quantile of the latest 1,028 values, as Kafka's histograms and timers do. The process's own
`process_*` metrics come on top. How many series there are depends on the number of brokers, never on that of topics or
partitions.
"""
AGENT = """\

# Metrics of the broker agent

`lethe broker` serves them at `/metrics`, and the process's own `process_*` metrics on top.

| Metric | Kind | Labels | Meaning |
|---|---|---|---|
"""
SURVEY = """\

# Metrics of surveys

`lethe survey --textfile /var/lib/node_exporter/lethe.prom`, run by cron, say every hour, writes them for the textfile
collector of Prometheus' node exporter. All are gauges.

| Metric | Labels | Meaning |
|---|---|---|
"""


def page() -> str:
    """The whole page as Markdown."""
    rows = (
        f"| `{metric.name}` | {metric.kind} | {', '.join(f'`{label}`' for label in metric.labels)} | {metric.meaning} |"
        for metric in METRICS
    )
    found = (f"| `{g.name}` | {', '.join(f'`{label}`' for label in g.labels)} | {g.meaning} |" for g in GAUGES)
    agent, survey = AGENT + "\n".join(rows) + "\n", SURVEY + "\n".join(found) + "\n"
    return CONTROLLER + "\n".join(_controller()) + "\n" + agent + survey


def _controller() -> Iterator[str]:
    for title, remark, metrics in declared.GROUPS:
        yield from ("", f"## {title}", "")
        if remark:
            yield from (remark, "")
        yield from ("| Metric | Kind | Labels | Meaning | Kafka's MBean |", "|---|---|---|---|---|")
        yield from map(_row, metrics)


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    mbean = f"`{metric.mbean}`" if metric.mbean else ""
    return f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.meaning} | {mbean} |"
