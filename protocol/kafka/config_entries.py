"""Properties as Kafka's answers describe them: the value, where it comes from, what it would be otherwise."""

from __future__ import annotations

from typing import NamedTuple


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """One property; `value` is None if it is secret or unset."""

    name: str
    value: str | None
    read_only: bool = False
    source: int = -1
    is_sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: int = 0
    documentation: str | None = None
