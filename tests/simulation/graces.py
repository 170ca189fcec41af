"""Topics that go into the trash by the controllers' configuration, `lethe.deletion.grace`, whoever marks them.

    the marker of a topic    the controllers' rules    what the controller may do
    -----------------------  ------------------------  --------------------------------------
    orders nothing           none that matches, or 0   queue the topic for deletion
    orders nothing           t*:15s                    put the topic into the trash for 15 s
    orders 0                 t*:15s                    queue the topic for deletion
    orders 3 s               t*:15s, or none           put the topic into the trash for 3 s

All controllers of a run have the same rules. A topic may have had several markers: a controller goes by the one that
it has read, so each of them is a reason. What comes out of the trash, to stay or to be deleted, begins anew. So does
a marked topic that stays by request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from lethe.protocol.deletion_grace import GraceRule, grace_of
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Operation
from lethe.protocol.zookeeper.znodes import TrashPhase
from tests.simulation.ledger import Incarnation
from tests.simulation.mix import Mix

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

P_GRACE: Final = 0.3
DEEDS: Final = {"mark_at_once": 5}
RULES: Final = (
    (GraceRule("*", 3_000),),
    (GraceRule("t0", 0), GraceRule("*", 15_000)),
    (GraceRule("t1", 300), GraceRule("t?", 120_000)),
    (GraceRule("t0", 1_000), GraceRule("t2", 15_000)),
)


def drawn(seed: int, mix: Mix) -> Mix:
    """The mix with rules of the controllers. A chance of its own, in runs with a trash."""
    random = Random(f"rules {seed}")
    if "mark_for_trash" not in mix.theme_weights or random.random() >= P_GRACE:
        return mix
    return replace(mix, grace=random.choice(RULES), theme_weights={**mix.theme_weights, **DEEDS})


def effective_ms(cluster: Cluster, name: str, ordered_ms: int | None) -> int:
    """How long a topic is to stay in the trash whose marker orders this; 0: it is deleted at once."""
    return grace_of(name, cluster.mix.grace) if ordered_ms is None else ordered_ms


def _reasons(cluster: Cluster, incarnation: Incarnation) -> list[int]:
    return [effective_ms(cluster, incarnation.name, ordered_ms) for ordered_ms in incarnation.graces]


def why_not_at_once(cluster: Cluster, incarnation: Incarnation) -> str | None:
    """Why the topic may not be queued for deletion; None where one of its markers wanted that."""
    reasons = _reasons(cluster, incarnation)
    if not reasons:
        return "no marker of it is left that it was not brought back from"
    return None if 0 in reasons else f"it was to go into the trash, for one of {reasons} ms"


def why_not_frozen(cluster: Cluster, operations: Sequence[Operation]) -> str | None:
    """Why these operations may not put a topic on its way into the trash; None where they put none, or may."""
    for operation in operations:
        name = paths.child_of(paths.trash(), operation.path)
        living = None if name is None else cluster.ledger.living.get(name)
        if name is None or living is None or not isinstance(operation, Create):
            continue
        entry, reasons = znodes.decode_trash(name, operation.data), _reasons(cluster, living)
        if entry.phase is TrashPhase.FREEZING and entry.grace_ms not in reasons:
            return f"puts {living} into the trash for {entry.grace_ms} ms, wanted was one of {reasons}"
    return None
