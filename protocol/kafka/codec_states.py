"""Fast layouts for the arrays that grow with the cluster: partition states of the three control requests.

Theory of operation. A controller that takes over sends every partition to every broker, so these arrays decide how
long a takeover lasts, on both sides. Once the lengths of its lists are given, a state has a fixed size, and adjacent
states mostly have the same lengths. One `struct.Struct` per combination of lengths packs a whole state at once.

A reader unpacks each state with the lengths of the state before it, and accepts the result if every length matches.
Otherwise it reads the state field by field. If the bytes at the positions of the lengths show that all remaining
states match, they are unpacked in one call without a loop in Python.

A writer packs equal states once, apart from the partition's number: partitions with the same replicas mostly have the
same leader, ISR and epochs.
"""

from __future__ import annotations

import functools
import itertools
import operator
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from lethe.protocol.kafka.codec_layout import MakeArray
from lethe.protocol.kafka.codec_primitives import (
    Append,
    Layout,
    Malformed,
    Read,
    encode_length,
    read_length,
    struct_array,
)
from lethe.protocol.kafka.control import LeaderAndIsrPartition, StopReplicaPartition, UpdateMetadataPartition

MAX_LOOKS_AHEAD: Final = 4
"""Number of states at the head of an array after which the whole rest is compared. A limit is needed: otherwise a peer
could send an array of unlike states whose rest is compared again and again."""

_NUMBER: Final = struct.Struct(">i")
_REMEMBERED_STATES: Final = 4_096

S = TypeVar("S", bound=tuple[Any, ...])


class _Form(NamedTuple):
    """Layout of a state. `codes` are those of `struct`, with `*` for a list and its length."""

    codes: str
    flexible: bool


class _Shape(NamedTuple):
    """A form with fixed list lengths: packs and unpacks a whole state at once."""

    pack: Callable[..., bytes]
    unpack_from: Callable[[bytes, int], tuple[Any, ...]]
    size: int
    prefixes: tuple[bytes, ...]
    """The encoded lengths, in order."""
    checks: tuple[tuple[int, bytes | int], ...]
    """(column, expected value): the lengths, and an empty section of tagged fields."""
    iter_unpack: Callable[[memoryview], Iterator[tuple[Any, ...]]]
    constants: tuple[tuple[int, int], ...]
    """(offset in the state, byte): the same as `checks`, byte by byte."""
    items: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    """Return the state's items, in order, from the unpacked values."""

    def repeats(self, buffer: bytes, offset: int, count: int) -> bool:
        """True if `count` adjacent states of this shape start at `offset`."""
        end = offset + count * self.size
        return end <= len(buffer) and all(
            buffer[offset + place : end : self.size].count(byte) == count for place, byte in self.constants
        )


@functools.lru_cache(maxsize=1024)
def _shape(form: _Form, lengths: tuple[int, ...]) -> _Shape:
    """Return the form with lists of these lengths. The cache is bounded, because a peer chooses the lengths."""
    prefixes = tuple(encode_length(length, form.flexible) for length in lengths)
    lists = iter(zip(prefixes, lengths, strict=True))
    codes: list[str] = []
    checks: list[tuple[int, bytes | int]] = []
    constants: list[tuple[int, int]] = []
    items: list[int | slice] = []
    columns = size = 0
    for code in form.codes:
        if code == "*":
            prefix, length = next(lists)
            codes.append(f"{len(prefix)}s{length}i")
            checks.append((columns, prefix))
            constants += [(size + place, byte) for place, byte in enumerate(prefix)]
            items.append(slice(columns + 1, columns + 1 + length))
            columns += 1 + length
        else:
            codes.append(code)
            items.append(columns)
            columns += 1
        size = struct.calcsize(">" + "".join(codes))
    if form.flexible:
        codes.append("B")
        checks.append((columns, 0))
        constants.append((size, 0))
    packer = struct.Struct(">" + "".join(codes))
    return _Shape(
        packer.pack,
        packer.unpack_from,
        packer.size,
        prefixes,
        tuple(checks),
        packer.iter_unpack,
        tuple(constants),
        operator.itemgetter(*items),
    )


def _reader(
    form: _Form,
    lengths_of: Callable[[S], tuple[int, ...]],
    make: Callable[..., S],
    item: Layout,
) -> Read:
    """Return a reader of an array of states."""
    read_item, item_bytes = item.read, item.min_bytes

    def read(buffer: bytes, offset: int) -> tuple[tuple[S, ...], int]:
        start = offset
        count, offset = read_length(buffer, offset, form.flexible, item_bytes)
        if count < 0:
            raise Malformed(f"null at offset {start}, where the protocol allows none")
        states: list[S] = []
        shape: _Shape | None = None
        last = -1
        for left in range(count, 0, -1):
            if offset <= last and shape is not None:
                values = shape.unpack_from(buffer, offset)
                for column, wanted in shape.checks:
                    if values[column] != wanted:
                        break
                else:
                    states.append(make(*shape.items(values)))
                    offset += shape.size
                    continue
            state, offset = read_item(buffer, offset)
            states.append(state)
            shape = _shape(form, lengths_of(state))
            if 1 < left > count - MAX_LOOKS_AHEAD and shape.repeats(buffer, offset, left - 1):
                end = offset + (left - 1) * shape.size
                found = map(shape.items, shape.iter_unpack(memoryview(buffer)[offset:end]))
                return (*states, *itertools.starmap(make, found)), end
            last = len(buffer) - shape.size
        return tuple(states), offset

    return read


def _writer(form: _Form, pack: Callable[[_Form, tuple[Any, ...]], bytes]) -> Callable[[Sequence[S], Append], None]:
    """Return a writer of an array of states, which begin with the partition's number; `pack` packs what follows."""
    without_number = _Form(form.codes.removeprefix("i"), form.flexible)
    packed = functools.lru_cache(_REMEMBERED_STATES)(functools.partial(pack, without_number))

    def write(states: Sequence[S], append: Append) -> None:
        append(encode_length(len(states), form.flexible))
        append(b"".join([_NUMBER.pack(state[0]) + packed(state[1:]) for state in states]))

    return write


# --- LeaderAndIsr -------------------------------------------------------------------------------------------------


def leader_and_isr_states(version: int) -> MakeArray | None:
    """Return the layout of LeaderAndIsrPartition arrays from version 3 on; None for earlier ones, which are rare."""
    if version < 3:
        return None
    form = _Form("iiii*i***" + ("?b" if version >= 6 else "?"), flexible=version >= 4)
    return lambda item: Layout(
        read=_reader(form, _leader_and_isr_lengths, LeaderAndIsrPartition, item),
        write=_writer(form, _pack_leader_and_isr),
        min_bytes=len(encode_length(0, form.flexible)),
    )


def _leader_and_isr_lengths(state: LeaderAndIsrPartition) -> tuple[int, ...]:
    return len(state.isr), len(state.replicas), len(state.adding), len(state.removing)


def _pack_leader_and_isr(form: _Form, state: tuple[Any, ...]) -> bytes:
    controller_epoch, leader, leader_epoch, isr, epoch, replicas, adding, removing, *flags = state
    shape = _shape(form, (len(isr), len(replicas), len(adding), len(removing)))
    a, b, c, d = shape.prefixes
    # Version 6 is the first with a recovery state.
    sent = flags if form.codes.endswith("b") else flags[:1]
    return shape.pack(
        *(controller_epoch, leader, leader_epoch, a, *isr, epoch, b, *replicas, c, *adding, d, *removing, *sent),
        *((0,) if form.flexible else ()),
    )


# --- UpdateMetadata -----------------------------------------------------------------------------------------------


def update_metadata_states(version: int) -> MakeArray | None:
    """Return the layout of UpdateMetadataPartition arrays from version 5 on; None for earlier ones."""
    if version < 5:
        return None
    form = _Form("iiii*i**", flexible=version >= 6)
    return lambda item: Layout(
        read=_reader(form, _update_metadata_lengths, UpdateMetadataPartition, item),
        write=_writer(form, _pack_update_metadata),
        min_bytes=len(encode_length(0, form.flexible)),
    )


def _update_metadata_lengths(state: UpdateMetadataPartition) -> tuple[int, ...]:
    return len(state.isr), len(state.replicas), len(state.offline_replicas)


def _pack_update_metadata(form: _Form, state: tuple[Any, ...]) -> bytes:
    controller_epoch, leader, leader_epoch, isr, zk_version, replicas, offline = state
    shape = _shape(form, (len(isr), len(replicas), len(offline)))
    a, b, c = shape.prefixes
    return shape.pack(
        *(controller_epoch, leader, leader_epoch, a, *isr, zk_version, b, *replicas, c, *offline),
        *((0,) if form.flexible else ()),
    )


# --- StopReplica --------------------------------------------------------------------------------------------------

_STOP: Final = struct.Struct(">ii?B")
"""Partition, leader epoch, delete flag, and an empty section of tagged fields."""
_REMEMBERED_ROWS: Final = 256
"""Rows of larger topics are packed each time: such topics are few."""


def stop_replica_states() -> MakeArray:
    """Return the layout of StopReplicaPartition arrays from version 3 on. Deleted topics of one size have equal rows,
    which are packed once."""
    return lambda item: replace(struct_array(item, flexible=True, nullable=False), write=_write_stop_replica_states)


def _write_stop_replica_states(states: tuple[StopReplicaPartition, ...], append: Append) -> None:
    append(encode_length(len(states), True))
    append((_packed_once if len(states) <= _REMEMBERED_ROWS else _packed)(states))


def _packed(states: tuple[StopReplicaPartition, ...]) -> bytes:
    return b"".join([_STOP.pack(*state, 0) for state in states])


_packed_once = functools.lru_cache(maxsize=256)(_packed)
