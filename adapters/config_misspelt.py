"""Names that are nearly those of properties for TLS or a login: without these a connection would have neither."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lethe.adapters.config_environment import OF_VARIABLES, Setting, variable_name
from lethe.adapters.config_kafka_names import KAFKA_NAMES
from lethe.adapters.properties import Problem, nearest


def misspelt(settings: Mapping[str, Setting], known: Iterable[str]) -> Iterator[Problem]:
    """Yield a problem for each name that is no property of Kafka's and nearly a known one."""
    known = {*known}
    for name, setting in settings.items():
        near = None if name in known or name in KAFKA_NAMES else nearest(name, known)
        if near is not None:
            is_variable = setting.origin.startswith(OF_VARIABLES)
            remedy = f"set {variable_name(near)}, or unset it" if is_variable else f"write {near}, or remove the line"
            yield Problem(name, setting.origin, None, "is unknown", remedy)
