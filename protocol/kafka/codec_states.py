"""Writers for the arrays that grow with the cluster: the partition states of LeaderAndIsr and UpdateMetadata.

A controller that takes over sends every partition to every broker, so these two arrays decide how long that takes. All
of a state is of fixed size once the lengths of its lists are known, and a cluster has few combinations of lengths: one
`struct.Struct` per combination packs a whole state at once, three times as fast as field by field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from protocol.kafka.codec_primitives import Append, Write, encode_length
from protocol.kafka.control import LeaderAndIsrPartition, UpdateMetadataPartition

_Packer = tuple[Callable[..., bytes], tuple[bytes, ...]]
"""(pack, the encoded lengths of the lists, in order)"""


def _packer(codes: str, lengths: tuple[int, ...], flexible: bool) -> _Packer:
    """`codes` has a `*` where a list with its length stands; `x` is the empty section of tagged fields."""
    encoded = tuple(encode_length(length, flexible) for length in lengths)
    sizes = iter(zip(encoded, lengths, strict=True))
    parts = []
    for code in codes:
        if code == "*":
            prefix, length = next(sizes)
            parts.append(f"{len(prefix)}s{length}i")
        else:
            parts.append(code)
    return struct.Struct(">" + "".join(parts)).pack, encoded


def leader_and_isr_states(version: int) -> Write | None:
    """Writes an array of LeaderAndIsrPartition in version 3 or later; None for earlier ones, which few clusters use."""
    if version < 3:
        return None
    flexible = version >= 4
    flag_count = 2 if version >= 6 else 1
    codes = "iiii*i***" + ("?b" if version >= 6 else "?") + ("x" if flexible else "")

    def write(states: Sequence[LeaderAndIsrPartition], append: Append) -> None:
        packers: dict[tuple[int, ...], _Packer] = {}
        append(encode_length(len(states), flexible))
        for partition, controller_epoch, leader, leader_epoch, isr, epoch, replicas, adding, removing, *flags in states:
            lengths = (len(isr), len(replicas), len(adding), len(removing))
            if (packer := packers.get(lengths)) is None:
                packer = packers[lengths] = _packer(codes, lengths, flexible)
            pack, (a, b, c, d) = packer
            append(
                pack(
                    *(partition, controller_epoch, leader, leader_epoch, a, *isr, epoch),
                    *(b, *replicas, c, *adding, d, *removing, *flags[:flag_count]),
                )
            )

    return write


def update_metadata_states(version: int) -> Write | None:
    """Writes an array of UpdateMetadataPartition in version 5 or later; None for earlier ones."""
    if version < 5:
        return None
    flexible = version >= 6
    codes = "iiii*i**" + ("x" if flexible else "")

    def write(states: Sequence[UpdateMetadataPartition], append: Append) -> None:
        packers: dict[tuple[int, ...], _Packer] = {}
        append(encode_length(len(states), flexible))
        for partition, controller_epoch, leader, leader_epoch, isr, zk_version, replicas, offline in states:
            lengths = (len(isr), len(replicas), len(offline))
            if (packer := packers.get(lengths)) is None:
                packer = packers[lengths] = _packer(codes, lengths, flexible)
            pack, (a, b, c) = packer
            append(
                pack(
                    *(partition, controller_epoch, leader, leader_epoch, a, *isr, zk_version),
                    *(b, *replicas, c, *offline),
                )
            )

    return write
