"""The reference of the configuration: units, defaults, variables, and what a wrong file is answered with."""

from __future__ import annotations

import pytest

from lethe.adapters.config_environment import environment_settings, variable_name
from lethe.adapters.properties import Property, PropertyKind
from lethe.broker.runtime.configuration import BROKER_SCHEMA
from lethe.controller.runtime.configuration import CONTROLLER_SCHEMA
from lethe.protocol.own_settings import OF_AGENTS, OF_CONTROLLERS
from tools.configuration_page import page, readable

SCHEMAS = (CONTROLLER_SCHEMA, BROKER_SCHEMA)
PROPERTIES = list({(prop.name, prop.doc): prop for schema in SCHEMAS for prop in schema.values()}.values())
WITHOUT_UNIT = {"broker.id", "lethe.http.port"}


@pytest.mark.parametrize("prop", PROPERTIES, ids=lambda prop: prop.name)
def test_a_property_says_what_it_is_and_in_which_unit_and_its_variable_sets_it(prop: Property) -> None:
    assert prop.doc.endswith((".", ")"))
    assert (prop.kind is PropertyKind.INTEGER) == bool(prop.unit) or prop.name in WITHOUT_UNIT
    if prop.kind is PropertyKind.INTEGER:
        assert prop.minimum is not None, "a number without a lower bound takes nonsense"
    assert list(environment_settings({variable_name(prop.name): "x"}, [prop.name])) == [prop.name]
    assert f"### `{prop.name}`\n\n{prop.doc}\n" in page()


def test_the_page_names_every_setting_that_may_change_at_run_time() -> None:
    (line,) = (line for line in page().splitlines() if line.startswith("These can also be changed in ZooKeeper"))
    assert [name for name in (*OF_CONTROLLERS, *OF_AGENTS) if f"`{name}`" not in line] == []


@pytest.mark.parametrize(
    "default,unit,expected",
    [
        ("18000", "milliseconds", "`18000` (18 s)"),
        ("3600000", "milliseconds", "`3600000` (1 h)"),
        ("300", "seconds", "`300` (5 min)"),
        ("1500", "milliseconds", "`1500`"),
        ("67108864", "bytes", "`67108864` (64 MiB)"),
        ("0", "bytes", "`0`"),
        ("true", "", "`true`"),
    ],
)
def test_defaults_are_said_as_people_say_them(default: str, unit: str, expected: str) -> None:
    assert readable(default, unit) == expected
