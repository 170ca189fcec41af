"""Steps about partitions: reassignments and elections of leaders, by Kafka's tools and its Admin client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tests.judge.step import Client, Step
from tests.judge.steps_topics import ORDER

IN_FLIGHT: Final = "3000"
"""Records: some batches, of which a slow follower gets one after the other."""
_FILE: Final = "{dir:moves.json}"


def move(action: str, partitions: Mapping[str, str] | str, *words: str, **more: Any) -> Step:
    """ReassignPartitionsCommand with a file that has `partitions`: replicas such as `1,2` by `topic-0`, or text."""
    if isinstance(partitions, str):
        text = said = partitions
    else:
        text, said = _moves(partitions), " ".join(f"{name}={replicas}" for name, replicas in partitions.items())
    arguments = ("--reassignment-json-file", _FILE, action, *words)
    note = " ".join(filter(None, (said, more.pop("note", ""))))
    return Step(
        Client.TOOLS,
        ("ReassignPartitionsCommand", *arguments),
        files={"moves.json": text},
        note=note,
        free=ORDER,
        **more,
    )


def _moves(partitions: Mapping[str, str]) -> str:
    rows = []
    for name, replicas in partitions.items():
        topic, _, number = name.rpartition("-")
        listed = [int(each) for each in replicas.split(",") if each]
        rows.append({"topic": topic, "partition": int(number), "replicas": listed})
    return json.dumps({"version": 1, "partitions": rows})


def _list(note: str, **more: Any) -> Step:
    return Step(Client.TOOLS, ("ReassignPartitionsCommand", "--list"), note=note, free=ORDER, **more)


def _describe(topic: str, note: str, shows: str | None = None) -> Step:
    return Step(Client.TOOLS, ("TopicCommand", "--describe", "--topic", topic), note=note, shows=shows)


def _elect(*words: str, client: Client = Client.TOOLS, **more: Any) -> Step:
    return Step(client, ("LeaderElectionCommand", *words), free=ORDER, **more)


def _admin(*words: str, **more: Any) -> Step:
    return Step(Client.ADMIN, words, **more)


def _generate(topics: str, brokers: str, note: str) -> Step:
    words = ("--topics-to-move-json-file", "{dir:topics.json}", "--broker-list", brokers, "--generate")
    return Step(Client.TOOLS, ("ReassignPartitionsCommand", *words), files={"topics.json": topics}, note=note)


_ONE_TOPIC: Final = json.dumps({"version": 1, "topics": [{"topic": "single"}]})
_UNKNOWN_TOPIC: Final = json.dumps({"version": 1, "topics": [{"topic": "nothing"}]})
_MOVED: Final = {"moved-0": "3,1", "moved-1": "3,2"}
REASSIGN: Final = (
    _admin("create", "moved@1.2,2.3", "single@1", note="to be moved"),
    _generate(_ONE_TOPIC, "3", "one topic"),
    _generate(_UNKNOWN_TOPIC, "3", "unknown topic"),
    _generate(_ONE_TOPIC, "9", "unknown broker"),
    _generate("{", "3", "bad JSON"),
    _list("none is moving"),
    move("--execute", _MOVED),
    move("--verify", _MOVED, "--preserve-throttles", shows="moved-0 is completed.*moved-1 is completed"),
    _describe("moved", "moved", shows="Replicas: 3,1\t.*Replicas: 3,2\t"),
    move("--execute", {"single-0": "2"}, "--throttle", "1000000"),
    move("--verify", {"single-0": "2"}, shows="single-0 is completed"),
    Step(Client.TOOLS, ("ConfigCommand", "--describe", "--topic", "single"), note="throttles are gone"),
    move("--verify", {"single-0": "1"}, "--preserve-throttles"),
    move("--cancel", {"single-0": "2"}, "--preserve-throttles", note="none is moving"),
    move("--cancel", {"single-0": "2"}, note="none is moving"),
    move("--execute", "{"),
    move("--execute", '{"version": 2, "partitions": []}'),
    move("--execute", '{"version": 1, "partitions": []}'),
    move("--execute", '{"partitions": [{"topic": "single"}]}'),
    move("--execute", {"nothing-0": "1"}),
    move("--execute", {"single-7": "1"}),
    move("--execute", {"single-0": "9"}),
    move("--execute", {"single-0": "1,1"}),
    move("--execute", {"single-0": ""}),
    move("--execute", {"single-0": "1,2,3"}),
    _describe("single", "wider", shows=r"Replicas: 1,2,3\tIsr: \d,\d,\d\tElr"),
    move("--execute", {"single-0": "3"}),
    _describe("single", "narrower", shows="Replicas: 3\tIsr: 3\tElr"),
)
IN_FLIGHT_STEPS: Final = (
    _admin("create", "bulk@1.2", "held@2.1", note="to be held in flight"),
    Step(Client.PYTHON, ("confluent", "produce", "bulk", IN_FLIGHT)),
    Step(Client.PYTHON, ("confluent", "produce", "held", IN_FLIGHT)),
    move("--execute", {"bulk-0": "3,1"}, "--throttle", "1"),
    _list("one is moving"),
    _describe("bulk", "in flight"),
    move("--verify", {"bulk-0": "3,1"}, "--preserve-throttles", note="in flight"),
    move("--execute", {"held-0": "3,2"}, "--throttle", "1", note="while another is moving"),
    move("--execute", {"held-0": "3,2"}, "--throttle", "1", "--additional"),
    _list("two are moving"),
    _admin("moving", note="two are moving"),
    Step(Client.TOOLS, ("TopicCommand", "--describe", "--under-replicated-partitions"), note="in flight"),
    _admin("grow", "bulk:2:2.1", note="in flight"),
    _admin("move", "held-0=3.1", "nothing-0=1", "bulk-9=1", "bulk-0=9", note="in flight"),
    _admin("move", "held-0=-", "placed-0=-", "nothing-0=-", note="cancels"),
    move("--cancel", {"bulk-0": "3,1"}, "--preserve-throttles"),
    _list("all are cancelled", shows="No partition reassignments found"),
    _describe("bulk", "cancelled", shows="Replicas: 1,2"),
    _admin("move", "bulk-0=2.1", note="only another order"),
    _describe("bulk", "another order", shows="Replicas: 2,1"),
)
_LED: Final = json.dumps({"partitions": [{"topic": "led", "partition": 0}, {"topic": "led", "partition": 1}]})
ELECT: Final = (
    _admin("create", "led@1.2,2.3", note="to be led"),
    _elect("--election-type", "preferred", "--topic", "led", "--partition", "0"),
    _admin("move", "led-0=2.1", note="another preferred leader"),
    _describe("led", "led by another one than preferred", shows="Leader: 1\tReplicas: 2,1\t"),
    _elect("--election-type", "preferred", "--topic", "led", "--partition", "0", note="with effect"),
    _describe("led", "led by the preferred one", shows="Leader: 2\tReplicas: 2,1\t"),
    _admin("move", "led-1=3.2", note="another preferred leader"),
    _elect(
        "--election-type", "preferred", "--path-to-json-file", "{dir:led.json}", files={"led.json": _LED}, shows="led-1"
    ),
    _elect("--election-type", "preferred", "--all-topic-partitions", note="all are preferred"),
    _elect("--election-type", "unclean", "--topic", "led", "--partition", "0"),
    _elect("--election-type", "unclean", "--all-topic-partitions"),
    _elect("--election-type", "preferred", "--topic", "nothing", "--partition", "0"),
    _elect("--election-type", "preferred", "--topic", "led", "--partition", "9"),
    _elect("--election-type", "sideways", "--all-topic-partitions"),
    _elect("--election-type", "preferred"),
    _elect(
        "--election-type", "preferred", "--path-to-json-file", "{dir:led.json}", files={"led.json": "{"}, note="bad"
    ),
    _elect("--election-type", "preferred", "--topic", "led", "--partition", "0", client=Client.OLD_TOOLS),
    _elect("--election-type", "unclean", "--topic", "led", "--partition", "0", client=Client.OLD_TOOLS),
    _elect("--election-type", "preferred", "--topic", "nothing", "--partition", "0", client=Client.OLD_TOOLS),
    _admin("elect", "PREFERRED", "led-0", "led-7", "nothing-0"),
    _admin("elect", "UNCLEAN", "led-0", "nothing-0"),
    _admin("elect", "PREFERRED", note="all partitions"),
)
BROKER_AWAY: Final = (
    _admin("create", "alone@3", "pair@3.1", "three@1.2.3", note="one broker will stop"),
    Step(Client.CLUSTER, ("stop", "3")),
    Step(Client.TOOLS, ("TopicCommand", "--describe", "--unavailable-partitions"), shows="alone", note="one is away"),
    Step(Client.TOOLS, ("TopicCommand", "--describe", "--topic", "pair|three|alone"), note="one broker is away"),
    Step(Client.TOOLS, ("TopicCommand", "--describe", "--under-replicated-partitions", "--topic", "pair|three")),
    Step(
        Client.TOOLS, ("TopicCommand", "--create", "--topic", "more", "--partitions", "1", "--replication-factor", "3")
    ),
    Step(Client.TOOLS, ("TopicCommand", "--create", "--topic", "there", "--replica-assignment", "3:1")),
    move("--execute", {"pair-0": "1,3"}, note="one broker is away"),
    move("--execute", {"three-0": "1,2"}, note="one broker is away"),
    _elect("--election-type", "preferred", "--topic", "pair", "--partition", "0", note="one broker is away"),
    _elect("--election-type", "preferred", "--topic", "alone", "--partition", "0", note="one broker is away"),
    _elect("--election-type", "unclean", "--topic", "alone", "--partition", "0", note="one broker is away"),
    _elect("--election-type", "unclean", "--topic", "pair", "--partition", "0", note="one broker is away"),
    _admin("cluster", note="one broker is away"),
    Step(Client.CLUSTER, ("start", "3")),
    _describe("pair", "all are back", shows="Isr: .*3"),
    _elect("--election-type", "preferred", "--topic", "pair", "--partition", "0", note="all are back"),
    _describe("pair", "led by the preferred one", shows="Leader: 3"),
)
