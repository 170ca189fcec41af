"""What dashboards have in common: selectors, and queries of histograms."""

from __future__ import annotations

from typing import Final

from tools.dashboard import Kind, Panel, Query

C: Final = '{cluster=~"$cluster"}'
AND: Final = 'cluster=~"$cluster"'
B: Final = '{cluster=~"$cluster",broker_id=~"$broker_id"}'
RATE: Final = "[$__rate_interval]"


def quantile(share: float, by: str, metric: str, selector: str = C) -> str:
    """That quantile of a histogram, by these labels."""
    grouping = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({grouping}) (rate({metric}_bucket{selector}{RATE})))"


def mean(by: str, metric: str, selector: str = C) -> str:
    """The mean of a histogram, by these labels."""
    return f"sum by ({by}) (rate({metric}_sum{selector}{RATE})) / sum by ({by}) (rate({metric}_count{selector}{RATE}))"


CHANNEL_RETRIES: Final = Panel(
    "Requests that did not get through",
    Kind.LINES,
    "ops",
    (
        Query(
            f"sum by (broker_id, reason) (rate(lethe_broker_request_retries_total{C}{RATE}))",
            "broker {{broker_id}}: {{reason}}",
        ),
    ),
    "Attempts of the controller that failed: unreachable, lost, timeout, garbage.",
)
