"""The page docs/metrics.md: what the controller and the agent measure, from their declarations."""

from __future__ import annotations

from broker.runtime.metrics import METRICS
from controller.runtime.metrics import metrics_page

AGENT = """\

# Metrics of the broker agent

`lethe broker` serves them at `/metrics`, and the process's own `process_*` metrics on top.

| Metric | Kind | Labels | Meaning |
|---|---|---|---|
"""


def page() -> str:
    """The whole page as Markdown."""
    rows = (
        f"| `{metric.name}` | {metric.kind} | {', '.join(f'`{label}`' for label in metric.labels)} | {metric.meaning} |"
        for metric in METRICS
    )
    return metrics_page() + AGENT + "\n".join(rows) + "\n"
