"""The comparisons: worlds in Kafka's cache, worlds and changes in ZooKeeper, hostile znodes, principals."""

from __future__ import annotations

import asyncio
import random
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from lethe.adapters.security.acl_reader import AclReader
from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.protocol.security.acls import AclEntry, Operation, Permission, ResourcePattern, ResourceType, acl_path
from lethe.protocol.security.distinguished_names import UnreadableCertificate, name_text
from lethe.protocol.security.principal_mapping import NoPrincipal, PrincipalMapping
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, MultiDone
from tests.authorizer import names
from tests.authorizer.hostile import FAULT, HOSTILE, QUESTION, RESOURCE
from tests.authorizer.kafka import KafkaAuthorizers, KafkaFault, Question
from tests.authorizer.worlds import (
    SETTINGS,
    Pool,
    World,
    authorizer_of,
    damaged,
    is_refused,
    loaded,
    verdict,
    world,
)

LIMIT_S: Final = 30.0
OPEN: Final = 1
"""Index of the settings under which everyone is allowed what no ACL is about."""


def configure(kafka: KafkaAuthorizers, connect: str) -> None:
    """Start one authorizer for each of the SETTINGS, on a ZooKeeper without ACLs."""
    for place, settings in enumerate(SETTINGS):
        kafka.configure(f"settings-{place}", connect, settings)


def check_worlds(kafka: KafkaAuthorizers, seeds: range) -> Counter[str]:
    """Compare the verdicts in the worlds of these seeds. Raises AssertionError with the set and the request."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        made = world(seed)
        answer = kafka.world(f"settings-{made.setting}", made.znodes, made.questions)
        assert not any(answer.faults), f"{made.described()}\n{answer.faults}"
        authorizer = authorizer_of(made.setting, loaded(made.znodes))
        ours = "".join(verdict(authorizer, each) for each in made.questions)
        counts += compared(made, made.questions, answer.verdicts, ours)
    return counts


def compared(made: World, questions: Sequence[Question], theirs: str, ours: str) -> Counter[str]:
    """Return how many verdicts there were of each kind; they must be equal."""
    for each, his, mine in zip(questions, theirs, ours, strict=True):
        assert his in ("-", mine), f"{made.described()}\n{each}\nKafka says {his}, Lethe says {mine}"
    return Counter(theirs)


def check_damaged(kafka: KafkaAuthorizers, seeds: range) -> Counter[str]:
    """Compare worlds with a damaged znode.

    What Lethe reads, Kafka reads, with the same verdicts. Where Lethe refuses a znode it may deny more, not allow
    more.
    """
    counts: Counter[str] = Counter()
    for seed in seeds:
        made = damaged(seed)
        answer = kafka.world(f"settings-{made.setting}", made.znodes, made.questions)
        refused = [is_refused(*znode) for znode in made.znodes]
        both = zip(made.znodes, answer.faults, refused, strict=True)
        assert all(mine or his is None for _, his, mine in both), f"{made.described()}\n{answer.faults}"
        authorizer = authorizer_of(made.setting, loaded(made.znodes))
        for each, his in zip(made.questions, answer.verdicts, strict=True):
            mine = verdict(authorizer, each)
            fine = his in ("-", mine) or (any(refused) and mine == "D")
            assert fine, f"{made.described()}\n{each}\nKafka says {his}, Lethe says {mine}"
            kind = "equal" if his in ("-", mine) else "denied by Lethe alone"
            counts["Kafka does not start" if any(answer.faults) else kind] += 1
    return counts


def check_hostile(kafka: KafkaAuthorizers) -> list[tuple[str, str, str]]:
    """Return each hostile znode with Kafka's verdict and ours; they must be those of the table."""
    rows = []
    for each in HOSTILE:
        answer = kafka.world(f"settings-{OPEN}", [(RESOURCE, each.data)], [QUESTION])
        theirs = FAULT if answer.faults[0] is not None else answer.verdicts
        ours = verdict(authorizer_of(OPEN, loaded([(RESOURCE, each.data)])), QUESTION)
        assert (theirs, ours) == (each.kafka, each.ours), (each.name, answer, ours)
        rows.append((each.name, theirs, ours))
    return rows


# --- ZooKeeper ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _following(reader: AclReader, session: ZooKeeperSession) -> AsyncIterator[asyncio.Task[None]]:
    """Have the reader follow the session's ACLs meanwhile."""
    task = asyncio.create_task(reader.follow(session))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def check_zookeeper(kafka: KafkaAuthorizers, connect: str, seeds: range) -> Counter[str]:
    """Compare worlds that both sides load from ZooKeeper, each world in a chroot of its own below `connect`."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        made = world(seed)
        made = made._replace(znodes=[each for each in made.znodes if can_be_znode(each[0].name)])
        chroot = f"{connect}/world-{seed}"
        reader = AclReader()
        async with open_session(ZooKeeperConfig(parse_connect_string(chroot)), reader.on_watch) as session:
            await _write(session, made)
            async with _following(reader, session):
                await asyncio.to_thread(kafka.configure, "loaded", chroot, SETTINGS[made.setting])
                async with asyncio.timeout(LIMIT_S):
                    await reader.loaded.wait()
                assert not reader.faults, reader.faults
                theirs = await asyncio.to_thread(kafka.verdicts, "loaded", made.questions)
                authorizer = authorizer_of(made.setting, reader.acls)
                ours = "".join(verdict(authorizer, each) for each in made.questions)
                counts += compared(made, made.questions, theirs, ours)
                await asyncio.to_thread(kafka.ask, "close", on="loaded")
    return counts


async def check_fault(kafka: KafkaAuthorizers, connect: str, data: bytes) -> str | None:
    """Write this into the znode of RESOURCE and return why Kafka does not start, None if it does. Ours must deny."""
    reader = AclReader()
    async with open_session(ZooKeeperConfig(parse_connect_string(connect)), reader.on_watch) as session:
        await _write(session, World(0, OPEN, [(RESOURCE, data)], [QUESTION]))
        async with _following(reader, session), asyncio.timeout(LIMIT_S):
            await reader.loaded.wait()
    assert verdict(authorizer_of(OPEN, reader.acls), QUESTION) == "D"
    assert list(reader.faults) == [acl_path(RESOURCE)]
    try:
        await asyncio.to_thread(kafka.configure, "faulty", connect, SETTINGS[OPEN])
    except KafkaFault as fault:
        return str(fault)
    theirs = await asyncio.to_thread(kafka.verdicts, "faulty", [QUESTION])
    assert theirs == "A"
    await asyncio.to_thread(kafka.ask, "close", on="faulty")
    return None


def can_be_znode(name: str) -> bool:
    """ZooKeeper refuses characters beyond the first 65,536."""
    return max(name) <= "\uffff"


async def _write(session: ZooKeeperSession, made: World) -> None:
    """Write the ACLs as Kafka does, with parents."""
    await session.ensure_path(paths.ACLS)
    for resource, data in made.znodes:
        path = acl_path(resource)
        await session.ensure_path(paths.parent_of(path))
        outcome = await session.multi([Create(path, data)])
        assert isinstance(outcome, MultiDone), outcome


async def check_changes(kafka: KafkaAuthorizers, connect: str, seed: int, changes: int) -> int:
    """Have Kafka create and delete ACLs, and wait each time until ours are the same. Return how many are left."""
    rng = random.Random(seed)
    reader = AclReader()
    config = ZooKeeperConfig(parse_connect_string(f"{connect}/changes-{seed}"))
    there: list[tuple[ResourcePattern, AclEntry]] = []
    async with open_session(config, reader.on_watch) as session:
        await session.ensure_path("/")
        async with _following(reader, session) as following:
            await asyncio.to_thread(kafka.configure, "changing", f"{connect}/changes-{seed}", SETTINGS[0])
            for _ in range(changes):
                await _change(kafka, rng, there)
                expected = dict.fromkeys(there)
                async with asyncio.timeout(LIMIT_S):
                    while {(r, e): None for r, entries in reader.acls.patterns() for e in entries} != expected:
                        assert not following.done(), following
                        await asyncio.sleep(0.002)
                asked = [Pool().question(rng) for _ in range(6)]
                theirs = await asyncio.to_thread(kafka.verdicts, "changing", asked)
                authorizer = authorizer_of(0, reader.acls)
                ours = "".join(verdict(authorizer, each) for each in asked)
                made = World(seed, 0, [(resource, str(acl).encode()) for resource, acl in there], asked)
                compared(made, asked, theirs, ours)
            await asyncio.to_thread(kafka.ask, "close", on="changing")
    return len(there)


async def _change(kafka: KafkaAuthorizers, rng: random.Random, there: list[tuple[ResourcePattern, AclEntry]]) -> None:
    """One change, as an administrator makes it; `there` is what is there afterwards."""
    if there and rng.random() < 0.4:
        gone = rng.sample(there, rng.randint(1, min(3, len(there))))
        await asyncio.to_thread(kafka.delete, "changing", gone)
        there[:] = [each for each in there if each not in gone]
        return
    new: list[tuple[ResourcePattern, AclEntry]] = []
    while not new:
        for made in (world(rng.randrange(10**9)) for _ in range(3)):
            bindings = [(resource, Pool().entry(rng)) for resource, _ in made.znodes[:1]]
            new += [each for each in bindings if _is_old(each) and can_be_znode(each[0].name)]
    await asyncio.to_thread(kafka.create, "changing", new)
    there += [each for each in dict.fromkeys(new) if each not in there]


def _is_old(binding: tuple[ResourcePattern, AclEntry]) -> bool:
    """Every version of Kafka has it, and lets it be created."""
    resource, acl = binding
    newer = (Operation.UNKNOWN, Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS)
    return (
        resource.resource_type is not ResourceType.USER
        and acl.operation not in newer
        and acl.permission is not Permission.UNKNOWN
    )


# --- principals ---------------------------------------------------------------------------------------------------


def check_names(kafka: KafkaAuthorizers, seeds: range) -> Counter[str]:
    """Compare distinguished names, and what mapping rules make of them."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        der = names.name(rng)
        theirs = _answer(kafka, "distinguished name", der=b64encode(der).decode())
        try:
            ours = name_text(der)
        except UnreadableCertificate:
            ours = None
        assert theirs == ours, f"seed {seed}, {der.hex()}: Java says {theirs!r}, Lethe says {ours!r}"
        rules, text = names.rules(rng), rng.choice((ours or "CN=a", names.text(rng)))
        theirs = _answer(kafka, "map", rules=rules, name=text)
        try:
            mapping = PrincipalMapping.parse(rules)
        except ValueError:
            counts["rules refused by Lethe" if theirs is not None else "rules refused by both"] += 1
            continue
        try:
            ours = mapping.name_of(text)
        except NoPrincipal:
            ours = None
        assert theirs == ours, f"seed {seed}, {rules!r}, {text!r}: Kafka says {theirs!r}, Lethe says {ours!r}"
        counts["mapped" if ours is not None else "refused by both"] += 1
    return counts


def _answer(kafka: KafkaAuthorizers, what: str, **details: str) -> str | None:
    try:
        answer: str = kafka.ask(what, **details)
    except KafkaFault:
        return None
    return answer
