"""DescribeConfigs: the rows of an answer, as Kafka's ConfigHelper makes them, for controllers and agents alike.

A resource is looked at once, however often a request names it, each time with other names of settings: a request of a
mebibyte has room for 40,000 rows about one topic.

    the request names                    the answer has, after one look at t
    topic t: retention.ms, no.such       t: retention.ms
    topic t: segment.ms                  t: segment.ms
    topic t: all                         t: all its settings
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from lethe.protocol.client_rows import RowRefused
from lethe.protocol.kafka.admin_configs import (
    ConfigResource,
    DescribableConfigs,
    DescribeConfigsRequest,
    DescribedConfigs,
)
from lethe.protocol.kafka.config_entries import ConfigEntry
from lethe.protocol.kafka.errors import ErrorCode


def described_rows(
    request: DescribeConfigsRequest, entries_of: Callable[[ConfigResource], Iterable[ConfigEntry]]
) -> tuple[DescribedConfigs, ...]:
    """Return a row for each of the request's resources, with the requested ones of its settings and of their synonyms.
    A row that is asked for again is left out: five bytes of a request would have a row with all settings.

    `entries_of` returns all settings of a resource with their synonyms, or raises RowRefused. Rows have them by name.
    """
    seen: dict[ConfigResource, Mapping[str, ConfigEntry] | RowRefused] = {}
    rows = []
    for asked in dict.fromkeys(request.resources):
        resource = ConfigResource(asked.resource_type, asked.resource_name)
        if resource not in seen:
            seen[resource] = _looked_at(request, resource, entries_of)
        rows.append(_row(asked, seen[resource]))
    return tuple(rows)


def _looked_at(
    request: DescribeConfigsRequest,
    resource: ConfigResource,
    entries_of: Callable[[ConfigResource], Iterable[ConfigEntry]],
) -> Mapping[str, ConfigEntry] | RowRefused:
    try:
        entries = entries_of(resource)
    except RowRefused as problem:
        return problem
    if not request.include_synonyms:
        entries = (each._replace(synonyms=()) for each in entries)
    return {each.name: each for each in entries}


def _row(asked: DescribableConfigs, found: Mapping[str, ConfigEntry] | RowRefused) -> DescribedConfigs:
    if isinstance(found, RowRefused):
        return DescribedConfigs(found.error, found.message, asked.resource_type, asked.resource_name, ())
    shown = tuple(found[name] for name in _shown(asked.names, found))
    return DescribedConfigs(ErrorCode.NONE, "", asked.resource_type, asked.resource_name, shown)


def _shown(names: Sequence[str] | None, found: Mapping[str, ConfigEntry]) -> Sequence[str]:
    # A request has room for many rows, and a row for many names: no row costs settings times names.
    return sorted({name for name in names if name in found} if names else found)
