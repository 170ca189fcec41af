"""The canonical form of a controller's memory: a hashable value that stands for every memory that behaves alike.

`frozen` walks the memory once and writes it down as nested tuples; `thawed` builds an independent memory from them. The
form is all that the search stores: what it leaves out, or renames, cannot influence what follows.

    in memory                           in the form
    ----------------------------------  ------------------------------------------------------------------------------
    ids of requests and effects         renamed by rank: only their order and their equality matter to the core
    a time that has come                START_MS
    a time that is still to come        DUE_MS: timers fire in any order, so how far off one is makes no difference
    counts for metrics, `_COUNTS`       left out
    counts of failed attempts           up to `_MOST_ATTEMPTS`. They lengthen waits, which have one length here
    when to read a broker's cache       left out: no cache is read in this world
    caches of derived values            left out (`compare=False`)
    dictionaries                        in the order of insertion, on which the order of effects may depend

Ids and times are told from other numbers by their size: each kind has a range of its own, far above every other number
of the world. So a field that is added to the core needs no entry here.
"""

from __future__ import annotations

import dataclasses
import enum
import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from lethe.controller.core.cache_memory import DueCacheRead
from lethe.controller.core.config import CoreConfig
from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import Deletion, DeletionProblem
from lethe.protocol.kafka.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from lethe.protocol.kafka.queries import DescribeLogDirsRequest
from lethe.protocol.vocabulary import Broker

Form = Any
"""A tuple that begins with a class, or a value that is immutable."""

FIRST_REQUEST_ID: Final = 1_000_000
FIRST_EFFECT_ID: Final = 2_000_000
_IDS_END: Final = 3_000_000
START_MS: Final = 1_000_000_000_000
DUE_MS: Final = START_MS + 1_000_000_000
FORGOTTEN_ID: Final = FIRST_REQUEST_ID - 1
"""Stands for the id of a request that the memory does not have any more: its answer is ignored."""

_LEAVES: Final = (
    *(CoreConfig, Broker, uuid.UUID, str, bytes, bool, float, type(None)),
    *(LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest, DescribeLogDirsRequest),
)
"""Immutable values that hold neither ids nor times."""
_COUNTS: Final[Mapping[type, tuple[str, ...]]] = {
    Context: ("elections", "unclean_elections", "ghosts_cured", "deletion_retries", "faults_in_a_row"),
    Deletion: ("attempts",),
}
_MOST_ATTEMPTS: Final = 3
"""Further attempts make no difference here: two raise a debt's epoch above every epoch that a broker may host."""


def frozen(value: object, now_ms: int) -> tuple[Form, dict[int, int]]:
    """Return the form of a memory as of `now_ms`, and the new id of each id in it."""
    freezing = _Freezing(now_ms)
    form = freezing.form(value)
    names = {old: new for ids in _by_kind(freezing.ids) for old, new in ids}
    if all(old == new for old, new in names.items()):
        return form, names
    return _renamed(form, names), names


def last_ids(names: Mapping[int, int]) -> tuple[int, int]:
    """Return the last request id and the last effect id that a memory with these ids has used."""
    requests = sum(1 for each in names if each < FIRST_EFFECT_ID)
    return FIRST_REQUEST_ID + requests - 1, FIRST_EFFECT_ID + len(names) - requests - 1


def thawed(form: Form) -> Any:
    """Return an independent memory of this form; a context needs its last ids besides."""
    if form.__class__ is not tuple:
        return form
    kind = form[0]
    if kind is dict:
        values = [part if part.__class__ is not tuple else thawed(part) for part in form[1:]]
        return dict(zip(values[::2], values[1::2], strict=True))
    if kind is _AS_IT_IS:
        return form[1]
    parts = [part if part.__class__ is not tuple else thawed(part) for part in form[1:]]
    if kind in (tuple, list, deque):
        return kind(parts)
    if kind in _fields:
        return kind(**dict(zip(_fields[kind], parts, strict=True)))
    return kind(*parts)


def _by_kind(found: Iterable[int]) -> Iterable[Iterable[tuple[int, int]]]:
    requests = sorted(each for each in found if each < FIRST_EFFECT_ID)
    effects = sorted(each for each in found if each >= FIRST_EFFECT_ID)
    for first, ids in ((FIRST_REQUEST_ID, requests), (FIRST_EFFECT_ID, effects)):
        yield ((old, first + rank) for rank, old in enumerate(ids))


def _renamed(form: Form, names: Mapping[int, int]) -> Form:
    kind = form.__class__
    if kind is int:
        return names.get(form, form) if form >= FIRST_REQUEST_ID else form
    if kind is tuple:
        return tuple([_renamed(each, names) for each in form])
    return form


_fields: Final[dict[type, tuple[str, ...]]] = {}
"""The fields of dataclasses that belong to the form, by class."""
_mutable: Final[set[type]] = set()
"""Those of these classes that are not frozen."""


def _fields_of(kind: type) -> tuple[str, ...]:
    names = _fields.get(kind)
    if names is None:
        if not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            _mutable.add(kind)
        left_out = {*_COUNTS.get(kind, ()), *(("last_request_id", "last_effect_id") if kind is Context else ())}
        names = _fields[kind] = tuple(
            field.name for field in dataclasses.fields(kind) if field.compare and field.name not in left_out
        )
    return names


class _Freezing:
    """One walk through a memory. A value in which the walk marks nothing is immutable, and stands for itself."""

    def __init__(self, now_ms: int) -> None:
        self.ids: set[int] = set()
        self._now_ms = now_ms
        self._met: set[int] = set()
        self._marks = 0
        """Ids, times and mutable values met so far."""

    def form(self, value: Any) -> Form:
        kind = value.__class__
        if kind is int:
            return value if value < FIRST_REQUEST_ID else self._number(value)
        if kind in _LEAF_KINDS:
            return value
        if kind is tuple:
            return self._tuple(value)
        if kind in (list, deque):
            self._marks += 1
            return (kind, *map(self.form, value))
        if kind is dict:
            self._marks += 1
            return (dict, *[self.form(part) for pair in value.items() for part in pair])
        if kind in _fields:
            return self._dataclass(kind, value)
        return self._of_new_kind(kind, value)

    def _number(self, value: int) -> int:
        self._marks += 1
        if value < _IDS_END:
            self.ids.add(value)
            return value
        return START_MS if value <= self._now_ms else DUE_MS

    def _tuple(self, value: tuple[Any, ...]) -> Form:
        """Of a tuple, or of a subclass, which has its class instead."""
        kind, marks = value.__class__, self._marks
        form = (kind, *map(self.form, value))
        if marks != self._marks:
            return form
        return (_AS_IT_IS, value) if kind is tuple else value

    def _dataclass(self, kind: type, value: Any) -> Form:
        if kind is DeletionProblem:
            value = dataclasses.replace(value, attempts=min(value.attempts, _MOST_ATTEMPTS))
        is_mutable = kind in _mutable
        if is_mutable:
            self._marks += 1
            if id(value) in self._met:
                raise ValueError(f"two places share one {kind.__name__}, which the form cannot express")
            self._met.add(id(value))
        marks = self._marks
        form = (kind, *[self.form(getattr(value, name)) for name in _fields[kind]])
        return value if not is_mutable and marks == self._marks else form

    def _of_new_kind(self, kind: type, value: Any) -> Form:
        if issubclass(kind, (*_LEAVES, enum.Enum)):
            _LEAF_KINDS.add(kind)
            return value
        if dataclasses.is_dataclass(kind):
            _fields_of(kind)
            return self._dataclass(kind, value)
        if kind is DueCacheRead:
            return value._replace(after_request=FORGOTTEN_ID, not_before_ms=0, attempts=0)
        if issubclass(kind, tuple):
            return self._tuple(value)
        if isinstance(value, Mapping):
            self._marks += 1
            return (dict, *[self.form(part) for pair in value.items() for part in pair])
        raise TypeError(f"a {kind.__name__} has no form: {value!r}")


_LEAF_KINDS: Final[set[type]] = set()
_AS_IT_IS: Final = None
"""Instead of a class: a tuple that stands for itself follows."""
