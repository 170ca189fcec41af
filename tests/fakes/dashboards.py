"""What tests read of the Grafana dashboards in deploy/grafana."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

DASHBOARDS: Final = sorted((Path(__file__).parents[2] / "deploy" / "grafana" / "dashboards").glob("*.json"))


def expressions(dashboard: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(panel, PromQL) of each query of a dashboard, with its variables set to all values."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], _for_all(target["expr"], dashboard)
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            label, selector = (
                variable["query"]["query"].removeprefix("label_values(").removesuffix(")").split(", ")[::-1]
            )
            yield f"variable {variable['name']}", f"count by ({label}) ({_for_all(selector, dashboard)})"


def _for_all(expression: str, dashboard: dict[str, Any]) -> str:
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            expression = expression.replace(f"${variable['name']}", variable["allValue"])
    return expression.replace("$__rate_interval", "1m").replace("$__range", "5m")
