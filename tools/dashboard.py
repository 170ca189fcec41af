"""Grafana dashboards from a short description: panels are named, asked and laid out here, and become Grafana's JSON.

What is common to all panels (the data source, the width of a row, how a line is drawn) is said once, so that a review
sees titles, queries and units. Dashboards are laid out from left to right, 24 columns to a row, as Grafana does.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

SCHEMA_VERSION: Final = 38
"""Of Grafana 10; later ones migrate it when they load it."""
COLUMNS: Final = 24
DATA_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
Json = dict[str, Any]


class Kind(enum.Enum):
    """What draws a panel."""

    STAT = "stat"
    LINES = "timeseries"
    STACK = "stack"
    TABLE = "table"
    BARS = "bargauge"


class Query(tuple[str, str]):
    """A PromQL expression and the name of each of its series."""

    __slots__ = ()

    def __new__(cls, expression: str, legend: str = "") -> Query:
        return super().__new__(cls, (expression, legend))


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `unit` is one of Grafana's; `red_at` and `green_at` colour the value of a stat from there on."""

    title: str
    kind: Kind
    unit: str
    queries: tuple[Query, ...]
    meaning: str
    width: int = 12
    height: int = 8
    red_at: float | None = None
    mappings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A heading over what follows."""

    title: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice on top of the dashboard: the values of a label."""

    name: str
    label: str
    of: str
    """A selector of the series that have the label."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    uid: str
    title: str
    meaning: str
    panels: tuple[Panel | Row, ...]
    variables: tuple[Variable, ...] = ()
    since: str = "now-1h"
    refresh: str = "10s"


CLUSTER: Final = Variable("cluster", "cluster", "up")


def text(dashboard: Dashboard, others: Sequence[Dashboard]) -> str:
    """The dashboard as the file that Grafana provisions; it links to the others."""
    return json.dumps(_dashboard(dashboard, others), indent=2) + "\n"


def expressions(dashboard: Json) -> Iterator[tuple[str, str]]:
    """(panel, PromQL) of everything that a dashboard's JSON asks, with its variables set to everything."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], _everything(target["expr"], dashboard)
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            label, selector = (
                variable["query"]["query"].removeprefix("label_values(").removesuffix(")").split(", ")[::-1]
            )
            yield f"variable {variable['name']}", f"count by ({label}) ({_everything(selector, dashboard)})"


def _everything(expression: str, dashboard: Json) -> str:
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            expression = expression.replace(f"${variable['name']}", variable["allValue"])
    return expression.replace("$__rate_interval", "1m").replace("$__range", "5m")


def _dashboard(dashboard: Dashboard, others: Sequence[Dashboard]) -> Json:
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.meaning,
        "tags": ["lethe"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": dashboard.refresh,
        "time": {"from": dashboard.since, "to": "now"},
        "timezone": "browser",
        "annotations": {"list": [_tenures()]},
        "links": [_link(other) for other in others if other is not dashboard],
        "templating": {"list": [_data_source(), *(_variable(each) for each in (CLUSTER, *dashboard.variables))]},
        "panels": list(_laid_out(dashboard.panels)),
    }


def _laid_out(panels: Sequence[Panel | Row]) -> Iterator[Json]:
    left = top = lowest = 0
    for number, panel in enumerate(panels, 1):
        if isinstance(panel, Row):
            left, top = 0, lowest
            lowest = top + 1
            place = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
            yield {
                "id": number,
                "type": "row",
                "title": panel.title,
                "gridPos": place,
                "collapsed": False,
                "panels": [],
            }
            top += 1
            continue
        if left + panel.width > COLUMNS:
            left, top = 0, lowest
        place = {"x": left, "y": top, "w": panel.width, "h": panel.height}
        left, lowest = left + panel.width, max(lowest, top + panel.height)
        yield {"id": number, "title": panel.title, "description": panel.meaning, "gridPos": place, **_body(panel)}


def _body(panel: Panel) -> Json:
    drawn = Kind.LINES if panel.kind is Kind.STACK else panel.kind
    is_momentary = drawn is not Kind.LINES
    return {
        "type": drawn.value,
        "datasource": DATA_SOURCE,
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": DATA_SOURCE,
                "expr": expression,
                "legendFormat": legend or "__auto",
                "instant": is_momentary,
                "range": not is_momentary,
                **({"format": "table"} if drawn is Kind.TABLE else {}),
            }
            for number, (expression, legend) in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _OPTIONS[drawn],
        **({"transformations": [_without_noise()]} if drawn is Kind.TABLE else {}),
    }


def _defaults(panel: Panel) -> Json:
    steps: list[Json] = [{"color": "green", "value": None}]
    if panel.red_at is not None:
        steps.append({"color": "red", "value": panel.red_at})
    defaults: Json = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.mappings:
        shown = {value: {"index": index, "text": words} for index, (value, words) in enumerate(panel.mappings)}
        defaults["mappings"] = [{"type": "value", "options": shown}]
    if panel.kind in (Kind.LINES, Kind.STACK):
        is_stack = panel.kind is Kind.STACK
        stacking = {"mode": "normal" if is_stack else "none", "group": "A"}
        defaults["custom"] = {"fillOpacity": 30 if is_stack else 5, "lineWidth": 1, "stacking": stacking}
        defaults["color"] = {"mode": "palette-classic"}
    if panel.mappings:
        defaults.pop("min")
    return defaults


_OPTIONS: Final[dict[Kind, Json]] = {
    Kind.STAT: {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "background",
        "graphMode": "none",
        "textMode": "auto",
        "orientation": "auto",
        "justifyMode": "auto",
    },
    Kind.LINES: {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    Kind.TABLE: {"showHeader": True, "cellHeight": "sm"},
    Kind.BARS: {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "orientation": "horizontal",
        "displayMode": "basic",
        "showUnfilled": True,
        "minVizWidth": 0,
        "minVizHeight": 10,
        "valueMode": "color",
    },
}


def _without_noise() -> Json:
    """A table of labels: the time and the 1 of an info metric say nothing."""
    hidden = ("Time", "Value", "__name__", "job")
    return {"id": "organize", "options": {"excludeByName": dict.fromkeys(hidden, True), "indexByName": {}}}


def _data_source() -> Json:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "hide": 0,
        "multi": False,
        "includeAll": False,
        "refresh": 1,
        "options": [],
    }


def _variable(variable: Variable) -> Json:
    return {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": DATA_SOURCE,
        "query": {"query": f"label_values({variable.of}, {variable.name})", "refId": "A"},
        "definition": f"label_values({variable.of}, {variable.name})",
        "hide": 0,
        "multi": True,
        "includeAll": True,
        # Clusters that nobody has named are among them: a label that is not there matches this.
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "refresh": 2,
        "sort": 3,
        "regex": "",
        "options": [],
    }


def _link(other: Dashboard) -> Json:
    return {
        "title": other.title.removeprefix("Lethe: "),
        "type": "link",
        "url": f"/d/{other.uid}",
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "asDropdown": False,
        "icon": "dashboard",
        "tags": [],
        "tooltip": "",
    }


def _tenures() -> Json:
    """A line at each moment at which control changed hands."""
    return {
        "name": "control changed hands",
        "datasource": DATA_SOURCE,
        "enable": True,
        "iconColor": "orange",
        "expr": 'changes(lethe_controller_epoch{cluster=~"$cluster"}[1m]) > 0',
        "titleFormat": "{{instance}}",
        "step": "15s",
    }
