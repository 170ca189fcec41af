"""The arrays that grow with the cluster: the partition states of LeaderAndIsr and UpdateMetadata.

Theory of operation. A controller that takes over sends every partition to every broker, so these two arrays decide how
long that takes, on both sides. All of a state is of fixed size once the lengths of its lists are known, and neighbours
nearly always have the same lengths: one `struct.Struct` per combination of lengths packs a whole state at once. A
reader supposes that the next state has the lengths of the one before it, unpacks it so, and believes the result only if
every length in it is what was supposed; otherwise the state is read field by field.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from protocol.kafka.codec_layout import MakeArray
from protocol.kafka.codec_primitives import Append, Layout, Malformed, Read, encode_length, read_length
from protocol.kafka.control import LeaderAndIsrPartition, UpdateMetadataPartition

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


@functools.lru_cache(maxsize=1024)
def _shape(form: _Form, lengths: tuple[int, ...]) -> _Shape:
    """The form with lists of these lengths. Bounded, because a peer chooses the lengths."""
    prefixes = tuple(encode_length(length, form.flexible) for length in lengths)
    lists = iter(zip(prefixes, lengths, strict=True))
    codes: list[str] = []
    checks: list[tuple[int, bytes | int]] = []
    columns = 0
    for code in form.codes:
        if code == "*":
            prefix, length = next(lists)
            codes.append(f"{len(prefix)}s{length}i")
            checks.append((columns, prefix))
            columns += 1 + length
        else:
            codes.append(code)
            columns += 1
    if form.flexible:
        codes.append("B")
        checks.append((columns, 0))
    packer = struct.Struct(">" + "".join(codes))
    return _Shape(packer.pack, packer.unpack_from, packer.size, prefixes, tuple(checks))


def _reader(
    form: _Form,
    lengths_of: Callable[[S], tuple[int, ...]],
    pick: Callable[[tuple[Any, ...], tuple[int, ...]], S],
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
        lengths: tuple[int, ...] = ()
        shape: _Shape | None = None
        last = -1
        for _ in range(count):
            if offset <= last and shape is not None:
                values = shape.unpack_from(buffer, offset)
                for column, wanted in shape.checks:
                    if values[column] != wanted:
                        break
                else:
                    states.append(pick(values, lengths))
                    offset += shape.size
                    continue
            state, offset = read_item(buffer, offset)
            states.append(state)
            lengths = lengths_of(state)
            shape = _shape(form, lengths)
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
        read=_reader(form, _leader_and_isr_lengths, _pick_leader_and_isr(version >= 6), item),
        write=_leader_and_isr_writer(form, 2 if version >= 6 else 1),
        min_bytes=len(encode_length(0, form.flexible)),
    )


def _leader_and_isr_lengths(state: LeaderAndIsrPartition) -> tuple[int, ...]:
    return len(state.isr), len(state.replicas), len(state.adding), len(state.removing)


def _pick_leader_and_isr(
    with_recovery: bool,
) -> Callable[[tuple[Any, ...], tuple[int, ...]], LeaderAndIsrPartition]:
    def pick(values: tuple[Any, ...], lengths: tuple[int, ...]) -> LeaderAndIsrPartition:
        isr, replicas, adding, removing = lengths
        epoch = 5 + isr
        replicas_end = epoch + 2 + replicas
        adding_end = replicas_end + 1 + adding
        removing_end = adding_end + 1 + removing
        return LeaderAndIsrPartition(
            values[0],
            values[1],
            values[2],
            values[3],
            values[5:epoch],
            values[epoch],
            values[epoch + 2 : replicas_end],
            values[replicas_end + 1 : adding_end],
            values[adding_end + 1 : removing_end],
            values[removing_end],
            values[removing_end + 1] if with_recovery else 0,
        )

    return pick


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
        read=_reader(form, _update_metadata_lengths, _pick_update_metadata, item),
        write=_update_metadata_writer(form),
        min_bytes=len(encode_length(0, form.flexible)),
    )


def _update_metadata_lengths(state: UpdateMetadataPartition) -> tuple[int, ...]:
    return len(state.isr), len(state.replicas), len(state.offline_replicas)


def _pick_update_metadata(values: tuple[Any, ...], lengths: tuple[int, ...]) -> UpdateMetadataPartition:
    isr, replicas, offline = lengths
    zk_version = 5 + isr
    replicas_end = zk_version + 2 + replicas
    return UpdateMetadataPartition(
        values[0],
        values[1],
        values[2],
        values[3],
        values[5:zk_version],
        values[zk_version],
        values[zk_version + 2 : replicas_end],
        values[replicas_end + 1 : replicas_end + 1 + offline],
    )


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
