"""The page docs/metrics.md: what the controller and the agent measure, from their declarations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lethe.broker.runtime.metrics import METRICS
from lethe.controller.runtime import metric_catalog
from lethe.survey.textfile import GAUGES

CONTROLLER = """\
# Metrics of the controller

Generated from `controller/runtime/metric_catalog.py` and what that names; `make docs` writes it.

`lethe controller` serves them at `/metrics`, with `process_*`. Kafka's metrics have the name that the Prometheus JMX
exporter gives them (lower case), and their MBean behind. A *summary* has `_count`, `_sum` and a series per quantile
of the latest 1,028 values. A metric without a kind is a gauge. The number of series depends on the number of brokers,
not of topics or partitions.
"""
AGENT = """\

# Metrics of the broker agent

`lethe broker` serves them at `/metrics`, with `process_*` and those of certificates, refusals and the journal above.

"""
SURVEY = """\

# Metrics of surveys

`lethe survey --textfile /var/lib/node_exporter/lethe.prom`, run every hour, writes them for the node exporter's
textfile collector.

"""


def page() -> str:
    """The whole page as Markdown."""
    told = {metric.name for _, _, metrics in metric_catalog.GROUPS for metric in metrics}
    own = (metric for metric in METRICS if metric.name not in told)
    agent = (_entry(metric.name, metric.kind.value, metric.labels, metric.meaning) for metric in own)
    survey = (_entry(gauge.name, "gauge", gauge.labels, gauge.meaning) for gauge in GAUGES)
    parts = (CONTROLLER, *_controller(), AGENT, *agent, SURVEY, *survey)
    return "".join(parts)


def _controller() -> Iterator[str]:
    for title, remark, metrics in metric_catalog.GROUPS:
        yield f"\n## {title}\n\n" + (f"{remark}\n\n" if remark else "")
        for metric in metrics:
            mbean = f" `{metric.mbean}`" if metric.mbean else ""
            yield _entry(metric.name, metric.kind.value, metric.labels, f"{metric.meaning}.{mbean}")


def _entry(name: str, kind: str, labels: Sequence[str], meaning: str) -> str:
    what = [] if kind == "gauge" else [kind]
    if labels:
        what.append(f"by {', '.join(f'`{label}`' for label in labels)}")
    shown = f" ({' '.join(what)})" if what else ""
    return f"* `{name}`{shown}: {meaning}\n"
