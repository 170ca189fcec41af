"""Rows of DescribeConfigs: each resource is looked at once, and a row has what it asks for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lethe.protocol.client_rows import RowRefused
from lethe.protocol.config_description import described_rows
from lethe.protocol.kafka.admin_configs import (
    TOPIC_RESOURCE,
    ConfigResource,
    DescribableConfigs,
    DescribeConfigsRequest,
    DescribedConfigs,
)
from lethe.protocol.kafka.config_entries import ConfigEntry, ConfigSynonym
from lethe.protocol.kafka.errors import ErrorCode

ENTRIES = tuple(ConfigEntry(name, "1", synonyms=(ConfigSynonym(name, "1", 1),)) for name in ("a", "b", "c"))


class Looks:
    """The resources that were looked at, in their order."""

    def __init__(self) -> None:
        self.at: list[str] = []

    def entries_of(self, resource: ConfigResource) -> Sequence[ConfigEntry]:
        self.at.append(resource.name)
        if resource.name == "none":
            raise RowRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return ENTRIES


def rows_of(
    *asked: tuple[str, tuple[str, ...] | None], synonyms: bool = False, looks: Looks | None = None
) -> tuple[DescribedConfigs, ...]:
    resources = tuple(DescribableConfigs(TOPIC_RESOURCE, *each) for each in asked)
    request = DescribeConfigsRequest(resources, include_synonyms=synonyms)
    return described_rows(request, (looks or Looks()).entries_of)


def test_a_resource_is_looked_at_once_whatever_its_rows_ask_for() -> None:
    looks = Looks()
    names = [(f"{number}",) for number in range(50)]
    rows = rows_of(*(("t", each) for each in names), *(("none", each) for each in names), ("u", None), looks=looks)
    assert [each.error for each in rows] == [0] * 50 + [3] * 50 + [0]
    assert looks.at == ["t", "none", "u"]


def test_a_row_that_is_asked_for_again_is_left_out() -> None:
    assert [each.resource_name for each in rows_of(("t", None), ("t", ("a",)), ("t", None), ("u", None))] == [
        *("t", "t", "u")
    ]


@pytest.mark.parametrize(
    "names, shown",
    [
        (None, ["a", "b", "c"]),
        ((), ["a", "b", "c"]),
        (("c", "x", "a", "c"), ["a", "c"]),
        (("x",), []),
        (tuple("zyxwvcb"), ["b", "c"]),
    ],
)
def test_a_row_has_the_settings_that_it_asks_for(names: tuple[str, ...] | None, shown: list[str]) -> None:
    (row,) = rows_of(("t", names))
    assert [each.name for each in row.entries] == shown


def test_synonyms_are_there_if_the_request_asks_for_them() -> None:
    assert rows_of(("t", None), synonyms=True)[0].entries == ENTRIES
    assert rows_of(("t", None))[0].entries == tuple(each._replace(synonyms=()) for each in ENTRIES)
