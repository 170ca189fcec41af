"""The arrays that grow with the cluster: the partition states of LeaderAndIsr and UpdateMetadata.

Theory of operation. A controller that takes over sends every partition to every broker, so these two arrays decide how
long that takes, on both sides. All of a state is of fixed size once the lengths of its lists are known, and neighbours
nearly always have the same lengths: one `struct.Struct` per combination of lengths packs a whole state at once. A
reader supposes that the next state has the lengths of the one before it, unpacks it so, and believes the result only if
every length in it is what was supposed; otherwise the state is read field by field. Where all that is left of an array
is as supposed, which the bytes at the places of the lengths tell, it is unpacked at once without Python looking at any
one of the states.
"""

from __future__ import annotations

import functools
import itertools
import operator
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from lethe.protocol.kafka.codec_layout import MakeArray
from lethe.protocol.kafka.codec_primitives import Append, Layout, Malformed, Read, encode_length, read_length
from lethe.protocol.kafka.control import LeaderAndIsrPartition, UpdateMetadataPartition

MAX_LOOKS_AHEAD: Final = 4
"""States at the head of an array after which all of the rest is looked at: were it after each, a peer could have an
array of many unlike states looked at again and again."""

S = TypeVar("S", bound=tuple[Any, ...])


class _Form(NamedTuple):
    """How a state lies in bytes. `codes` are those of `struct`, with `*` where a list with its length stands."""

    codes: str
    flexible: bool


class _Shape(NamedTuple):
    """A form with its lists' lengths: packs and unpacks a whole state at once."""

    pack: Callable[..., bytes]
    unpack_from: Callable[[bytes, int], tuple[Any, ...]]
    size: int
    prefixes: tuple[bytes, ...]
    """The encoded lengths, in order."""
    checks: tuple[tuple[int, bytes | int], ...]
    """(column, what must be there): the lengths, and an empty section of tagged fields."""
    iter_unpack: Callable[[memoryview], Iterator[tuple[Any, ...]]]
    constants: tuple[tuple[int, int], ...]
    """(place, byte): the same as `checks`, byte by byte."""
    items: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    """The state's items, in order, from what was unpacked."""

    def repeats(self, buffer: bytes, offset: int, count: int) -> bool:
        """True where so many states of this shape lie there, one behind the other."""
        end = offset + count * self.size
        return end <= len(buffer) and all(
            buffer[offset + place : end : self.size].count(byte) == count for place, byte in self.constants
        )


@functools.lru_cache(maxsize=1024)
def _shape(form: _Form, lengths: tuple[int, ...]) -> _Shape:
    """The form with lists of these lengths. Bounded, because a peer chooses the lengths."""
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
    """Reads an array of states, supposing that neighbours are alike."""
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


# --- LeaderAndIsr -------------------------------------------------------------------------------------------------


def leader_and_isr_states(version: int) -> MakeArray | None:
    """An array of LeaderAndIsrPartition in version 3 or later; None for earlier ones, which few clusters use."""
    if version < 3:
        return None
    form = _Form("iiii*i***" + ("?b" if version >= 6 else "?"), flexible=version >= 4)
    return lambda item: Layout(
        read=_reader(form, _leader_and_isr_lengths, LeaderAndIsrPartition, item),
        write=_leader_and_isr_writer(form, 2 if version >= 6 else 1),
        min_bytes=len(encode_length(0, form.flexible)),
    )


def _leader_and_isr_lengths(state: LeaderAndIsrPartition) -> tuple[int, ...]:
    return len(state.isr), len(state.replicas), len(state.adding), len(state.removing)


def _leader_and_isr_writer(form: _Form, flag_count: int) -> Callable[[Sequence[LeaderAndIsrPartition], Append], None]:
    tags = (0,) if form.flexible else ()

    def write(states: Sequence[LeaderAndIsrPartition], append: Append) -> None:
        shapes: dict[tuple[int, ...], _Shape] = {}
        append(encode_length(len(states), form.flexible))
        for partition, controller_epoch, leader, leader_epoch, isr, epoch, replicas, adding, removing, *flags in states:
            lengths = (len(isr), len(replicas), len(adding), len(removing))
            if (shape := shapes.get(lengths)) is None:
                shape = shapes[lengths] = _shape(form, lengths)
            a, b, c, d = shape.prefixes
            append(
                shape.pack(
                    *(partition, controller_epoch, leader, leader_epoch, a, *isr, epoch),
                    *(b, *replicas, c, *adding, d, *removing, *flags[:flag_count], *tags),
                )
            )

    return write


# --- UpdateMetadata -----------------------------------------------------------------------------------------------


def update_metadata_states(version: int) -> MakeArray | None:
    """An array of UpdateMetadataPartition in version 5 or later; None for earlier ones."""
    if version < 5:
        return None
    form = _Form("iiii*i**", flexible=version >= 6)
    return lambda item: Layout(
        read=_reader(form, _update_metadata_lengths, UpdateMetadataPartition, item),
        write=_update_metadata_writer(form),
        min_bytes=len(encode_length(0, form.flexible)),
    )


def _update_metadata_lengths(state: UpdateMetadataPartition) -> tuple[int, ...]:
    return len(state.isr), len(state.replicas), len(state.offline_replicas)


def _update_metadata_writer(form: _Form) -> Callable[[Sequence[UpdateMetadataPartition], Append], None]:
    tags = (0,) if form.flexible else ()

    def write(states: Sequence[UpdateMetadataPartition], append: Append) -> None:
        shapes: dict[tuple[int, ...], _Shape] = {}
        append(encode_length(len(states), form.flexible))
        for partition, controller_epoch, leader, leader_epoch, isr, zk_version, replicas, offline in states:
            lengths = (len(isr), len(replicas), len(offline))
            if (shape := shapes.get(lengths)) is None:
                shape = shapes[lengths] = _shape(form, lengths)
            a, b, c = shape.prefixes
            append(
                shape.pack(
                    *(partition, controller_epoch, leader, leader_epoch, a, *isr, zk_version),
                    *(b, *replicas, c, *offline, *tags),
                )
            )

    return write
