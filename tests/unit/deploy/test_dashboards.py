"""The dashboards' JSON: whole, laid out without gaps that hide something, and leading to each other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from lethe.protocol.findings import Place, Reason, Standing
from tests.fakes.dashboards import DASHBOARDS, expressions

GRAFANA: Final = Path(__file__).parents[3] / "deploy" / "grafana"
COLUMNS: Final = 24
"""Of a row in Grafana."""
DRAWN: Final = {"row", "stat", "timeseries", "table", "bargauge"}
ONE_KEY: Final = re.compile(r"^( *)(\w+): ", re.MULTILINE)


def dashboards() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in DASHBOARDS}


def test_the_files_are_named_as_grafana_knows_them() -> None:
    assert list(dashboards()) == ["brokers", "deletion", "leftovers", "overview", "zookeeper"]
    assert [document["uid"] for document in dashboards().values()] == [f"lethe-{name}" for name in dashboards()]


def test_leftovers_are_selected_by_the_reasons_and_standings_that_surveys_report() -> None:
    panels = {panel["title"]: panel.get("targets", []) for panel in dashboards()["leftovers"]["panels"]}
    by_place = {target["legendFormat"]: target["expr"] for target in panels["Left over, by place"]}
    assert set(by_place) == {place.value for place in Place}
    for place in Place:
        codes = [r.code for r in Reason if r.place is place and r.standing is Standing.LEFT_OVER]
        assert f'reason=~"{"|".join(codes)}"' in by_place[place.value]
    asked = "".join(expression for _, expression in expressions(dashboards()["leftovers"]))
    selected = {each for found in re.findall(r'standing=~?"([^"]+)"', asked) for each in found.split("|")}
    assert selected == {standing.name.lower() for standing in Standing}


@pytest.mark.parametrize("name", dashboards())
def test_panels_are_told_apart_lie_side_by_side_and_ask_something(name: str) -> None:
    document = dashboards()[name]
    taken: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        place = panel["gridPos"]
        assert panel["type"] in DRAWN
        assert 0 <= place["x"] <= COLUMNS - place["w"], panel["title"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["title"]
        assert panel["description"].endswith(".")
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs) > 0
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert target["instant"] is not target["range"]
    assert len({panel["id"] for panel in document["panels"]}) == len(document["panels"])


@pytest.mark.parametrize("name", dashboards())
def test_every_query_keeps_to_the_chosen_cluster_and_has_only_variables_that_there_are(name: str) -> None:
    document = dashboards()[name]
    variables = {variable["name"] for variable in document["templating"]["list"]}
    for panel in document["panels"]:
        for target in panel.get("targets", ()):
            used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval", "__range"}
            assert used <= variables, panel["title"]
            assert target["expr"].startswith("ALERTS{") or "cluster" in used, panel["title"]
    for _, expression in expressions(document):
        assert "$" not in expression


def test_each_leads_to_all_others() -> None:
    uids = {document["uid"] for document in dashboards().values()}
    for document in dashboards().values():
        assert {link["url"] for link in document["links"]} == {f"/d/{uid}" for uid in uids - {document["uid"]}}


def test_what_is_provisioned_is_there() -> None:
    source = (GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text()
    provider = (GRAFANA / "provisioning" / "dashboards" / "lethe.yml").read_text()
    for text, keys in (
        (source, ("apiVersion", "type", "url", "uid")),
        (provider, ("apiVersion", "folder", "type", "path")),
    ):
        found = {key for _, key in ONE_KEY.findall(text)}
        assert set(keys) <= found
