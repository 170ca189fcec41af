"""What kind of trouble one seed makes: sizes, durations, and which faults are on.

Every seed draws its own mix, and leaves many faults out: two faults that would hide each other's bugs when always on
together get runs in which only one of them is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from lethe.controller.core.config import DEFAULT_OPERATIONS_PER_GROUP, DEFAULT_PARTITIONS_PER_SLICE
from lethe.protocol.deletion_grace import GraceRule
from lethe.protocol.kafka.parts import DEFAULT_MAX_BYTES
from lethe.protocol.kafka.versions import LATEST, InterBrokerProtocol
from lethe.protocol.zookeeper.znodes import OfflineReplicas

DEFAULT_TOMBSTONE_TIMEOUT_MS = 300_000
DEFAULT_TRASH_FREEZE_MS = 10_000
_LATENCIES = ((0, 2), (1, 10), (1, 60), (1, 400))
_OLDER = ("2.8", "3.2", "3.4")


@dataclass(frozen=True, slots=True)
class Mix:
    """Times in milliseconds; `p_` are probabilities for each occasion; `w_` are weights against each other."""

    controllers: int
    agents: int
    log_dirs: int
    names: int
    chaos_ms: int
    ibp: InterBrokerProtocol
    delete_topic_enable: bool
    unclean: bool
    max_operations_per_multi: int
    max_operations_per_group: int
    multis_in_flight: int
    max_request_bytes: int
    """Limit of a request to a broker; larger ones go in parts."""
    partitions_per_slice: int
    list_pause_us: int
    session_timeout_ms: int
    request_timeout_ms: int
    delete_delay_ms: int
    network_ms: tuple[int, int]
    zookeeper_ms: tuple[int, int]
    disk_ms: tuple[int, int]
    p_request_lost: float
    p_answer_lost: float
    p_refused: float
    p_sent_twice: float
    p_reply_of_write_lost: float
    p_controller_crash: float
    p_agent_crash: float
    p_disk_refusal: float
    p_look_refused: float
    """How often a broker does not tell the state of its log directories."""
    one_broker_stays_away: bool
    asks_controller: bool
    """Leaders have ISRs changed by AlterPartition; otherwise they write them themselves and leave a notification."""
    stays_paused: bool
    insists: bool
    """Controllers take control from each other, at growing intervals, as from one of Kafka's that holds it."""
    tombstone_timeout_ms: int
    """Also whether brokers fall silent and controllers are asked to stop: with the default they are not."""
    advertised: bool
    """Brokers take controllers for some of them, and place replicas on them."""
    offline_replicas: OfflineReplicas
    """What controllers do about absent brokers, unless a marker orders something else."""
    trash_freeze_ms: int
    """In this time every broker notices that a topic's settings have changed."""
    grace: tuple[GraceRule, ...]
    """What controllers do about markers that order no grace period."""
    operator_every_ms: tuple[int, int]
    fault_every_ms: tuple[int, int]
    operator_weights: dict[str, int]
    theme_weights: dict[str, int]
    theme_every_ms: tuple[int, int]
    fault_weights: dict[str, int]

    @property
    def has_silences(self) -> bool:
        return self.tombstone_timeout_ms != DEFAULT_TOMBSTONE_TIMEOUT_MS


OPERATOR_WEIGHTS = {
    "create": 12,
    "mark": 14,
    "create_and_mark": 4,
    "mark_unknown": 1,
    "unmark": 1,
    "write_garbage": 2,
    "mend_garbage": 2,
    "remove_by_hand": 1,
    "remove_state_by_hand": 1,
    "delete_controller": 2,
    "touch_epoch": 1,
    "expand_isr": 4,
    "delete_behind_back": 4,
    "resign": 1,
}
THEMES = {
    "expansion": {"expand": 8, "expand_blindly": 12, "expand_and_mark": 2},
    "reassignment": {
        "reassign": 8,
        "cancel_reassignment": 4,
        "move_and_expand": 4,
        "mark_for_a_moment": 6,
        "withdraw_reassignment": 1,
        "write_nonsense": 1,
    },
    "election": {"prefer": 4},
    "pause": {"pause": 2, "resume": 6},
    "configuration": {
        "allow_unclean_for_topic": 2,
        "allow_unclean": 1,
        "allow_deletion": 2,
        "forget_configuration": 1,
        "spoil_configuration": 1,
    },
}
"""What people do besides having topics created and deleted: in most runs some of it, in many nothing."""
FAULT_WEIGHTS = {
    "crash_controller": 6,
    "pause_controller": 5,
    "expire_controller": 5,
    "disconnect_controller": 5,
    "crash_agent": 6,
    "bounce_agent": 6,
    "stop_agent": 6,
    "expire_agent": 8,
    "disconnect_agent": 5,
    "cut_link": 4,
    "break_log_dir": 4,
    "mend_log_dir": 4,
    "foreign_directory": 1,
    "old_directory": 2,
    "forge_epoch": 2,
    "return_without_disk": 3,
}
ENABLED = ("expansion", "reassignment", "election", "pause", "configuration")
_ALWAYS = ("create", "mark")


def draw(random: Random) -> Mix:
    """A mix for one run."""

    def perhaps(odds: float, *values: float) -> float:
        return random.choice(values) if random.random() < odds else 0.0

    def some(weights: dict[str, int], odds: float) -> dict[str, int]:
        return {name: weight for name, weight in weights.items() if name in _ALWAYS or random.random() < odds}

    def themes() -> tuple[str, ...]:
        return tuple(theme for theme in ENABLED if random.random() < 0.5) if random.random() < 0.7 else ()

    calm = random.random() < 0.1
    network_ms, zookeeper_ms = random.choice(_LATENCIES), random.choice(_LATENCIES[:3])
    mix = Mix(
        controllers=random.choice((2, 2, 3)),
        agents=random.choice((3, 3, 4)),
        log_dirs=random.choice((1, 2, 2, 3)),
        names=random.randint(2, 6),
        chaos_ms=random.choice((8_000, 15_000, 25_000)),
        ibp=LATEST if random.random() < 0.8 else InterBrokerProtocol.parse(random.choice(_OLDER)),
        delete_topic_enable=random.random() > 0.04,
        unclean=random.random() < 0.15,
        max_operations_per_multi=random.choice((500, 500, 10, 3)),
        max_operations_per_group=random.choice((DEFAULT_OPERATIONS_PER_GROUP, DEFAULT_OPERATIONS_PER_GROUP, 6, 3)),
        multis_in_flight=random.choice((1, 4)),
        max_request_bytes=DEFAULT_MAX_BYTES,
        partitions_per_slice=DEFAULT_PARTITIONS_PER_SLICE,
        list_pause_us=0,
        session_timeout_ms=random.choice((1_000, 3_000, 6_000)),
        request_timeout_ms=random.choice((1_000, 3_000)),
        delete_delay_ms=random.choice((0, 200, 3_000)),
        network_ms=network_ms,
        zookeeper_ms=zookeeper_ms,
        disk_ms=random.choice(((0, 1), (1, 20), (1, 300))),
        p_request_lost=0 if calm else perhaps(0.5, 0.01, 0.1),
        p_answer_lost=0 if calm else perhaps(0.5, 0.01, 0.1),
        p_refused=0 if calm else perhaps(0.4, 0.02, 0.2),
        p_sent_twice=0 if calm else perhaps(0.4, 0.02, 0.1),
        p_reply_of_write_lost=0 if calm else perhaps(0.5, 0.01, 0.03),
        p_controller_crash=0 if calm else perhaps(0.4, 0.003, 0.015),
        p_agent_crash=0 if calm else perhaps(0.4, 0.003, 0.015),
        p_disk_refusal=0 if calm else perhaps(0.4, 0.01, 0.05, 0.15),
        p_look_refused=0,
        one_broker_stays_away=random.random() < 0.6,
        operator_every_ms=random.choice(((20, 400), (100, 1_500))),
        fault_every_ms=random.choice(((100, 800), (300, 3_000))),
        stays_paused=False,
        insists=False,
        tombstone_timeout_ms=DEFAULT_TOMBSTONE_TIMEOUT_MS,
        advertised=False,
        offline_replicas=OfflineReplicas.WAIT,
        trash_freeze_ms=DEFAULT_TRASH_FREEZE_MS,
        grace=(),
        asks_controller=True,
        operator_weights=some(OPERATOR_WEIGHTS, 0.5),
        theme_weights={},
        theme_every_ms=(100, 1_500),
        fault_weights={} if calm else some(FAULT_WEIGHTS, 0.5),
    )
    chosen = themes()
    return replace(
        mix,
        asks_controller=random.random() < 0.6,
        theme_weights={deed: weight for theme in chosen for deed, weight in THEMES[theme].items()},
        theme_every_ms=random.choice(((50, 600), (100, 1_500))),
        p_look_refused=perhaps(0.2, 0.1, 1),
        stays_paused="pause" in chosen and random.random() < 0.5,
    )


def without_faults(mix: Mix) -> Mix:
    """The same, with nothing that goes wrong by chance and nobody who does anything."""
    return replace(
        mix,
        p_request_lost=0,
        p_answer_lost=0,
        p_refused=0,
        p_sent_twice=0,
        p_reply_of_write_lost=0,
        p_controller_crash=0,
        p_agent_crash=0,
        p_disk_refusal=0,
        operator_weights={},
        theme_weights={},
        fault_weights={},
        insists=False,
    )
