"""Log directories of this machine on command lines, and their owners."""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.vocabulary import BrokerId

LogDirs = Annotated[
    list[str] | None,
    typer.Option(
        "--log-dir",
        metavar="BROKER=PATH",
        help="A log directory on this machine and the broker that owns it, which may be down; may be repeated. Those "
        "of live brokers are found without. Directories elsewhere are known by what their brokers tell of them, which "
        "leaves out quarantined and pending directories.",
        show_default=False,
    ),
]
LogDirLists = Annotated[
    list[str] | None,
    typer.Option(
        "--log-dirs",
        metavar="PATH,…",
        help="The same as a list, like a broker's log.dirs: PATH,PATH or BROKER=PATH,PATH. Without BROKER= the owner "
        "is read from the directory's meta.properties.",
        show_default=False,
    ),
]

_NAMED: Final = re.compile(r"(?:(?P<broker>[0-9]{1,10})=)?(?P<path>.+)", re.ASCII | re.DOTALL)


class NamedLogDir(NamedTuple):
    """A log directory on a command line; `broker` is None where its owner has to be read from it."""

    broker: int | None
    path: Path


class OwnedLogDir(NamedTuple):
    """A log directory, its owner, and its cluster where that is known."""

    broker: int
    path: Path
    cluster_id: str | None


def parse_log_dirs(texts: Sequence[str]) -> dict[int, list[Path]]:
    """Return directories by broker, from `3=/var/lib/kafka` texts. Raises ValueError naming the text."""
    found: dict[int, list[Path]] = {}
    for text in texts:
        named = _named(text)
        if named is None or named.broker is None:
            raise ValueError(f"--log-dir {text!r} is not of the form BROKER=PATH, such as 3=/var/lib/kafka")
        found.setdefault(named.broker, []).append(named.path)
    return found


def parse_log_dir_lists(texts: Sequence[str]) -> tuple[NamedLogDir, ...]:
    """Parse lists like `/data/a,3=/data/b,/data/c`; a broker also owns the paths that follow in its list. Raises
    ValueError naming the text."""
    found: list[NamedLogDir] = []
    for text in texts:
        broker: int | None = None
        for part in text.split(","):
            named = _named(part.strip())
            if named is None:
                example = "such as /data/a,/data/b or 3=/data/a,/data/b"
                raise ValueError(f"--log-dirs {text!r} is no list of paths, {example}")
            broker = broker if named.broker is None else named.broker
            found.append(NamedLogDir(broker, named.path))
    return tuple(found)


def owned_log_dirs(known: Mapping[int, Sequence[Path]], named: Sequence[NamedLogDir]) -> tuple[OwnedLogDir, ...]:
    """Return all directories with their owners, by command line and `meta.properties`. Blocking. Raises ValueError
    where an owner is unknown, or where both differ. With a wrong owner, everything in the directory would seem to be
    left over."""
    from lethe.survey.directories import LogDirOwner, UnknownOwner, owner_of

    found: dict[OwnedLogDir, None] = {}
    for broker, path in (*(NamedLogDir(broker, path) for broker, paths in known.items() for path in paths), *named):
        try:
            owner = owner_of(path)
        except UnknownOwner:
            if broker is None:
                raise
            owner = LogDirOwner(BrokerId(broker), None)
        if broker is not None and owner.broker != broker:
            raise UnknownOwner(
                f"{path} is broker {owner.broker}'s, as its meta.properties says, and not broker {broker}'s"
            )
        found[OwnedLogDir(owner.broker, path, owner.cluster_id)] = None
    return tuple(found)


async def of_this_cluster(session: ZooKeeperSession, owned: Sequence[OwnedLogDir]) -> dict[int, list[Path]]:
    """Return the directories by broker. Raises ValueError for one of another cluster, in which everything would seem to
    be left over."""
    from lethe.survey.directories import UnknownOwner
    from lethe.survey.zookeeper import read_cluster_id

    here = await read_cluster_id(session) if owned else None
    found: dict[int, list[Path]] = {}
    for broker, path, cluster_id in owned:
        if None not in (cluster_id, here) and cluster_id != here:
            raise UnknownOwner(
                f"{path} is of the cluster {cluster_id}, and ZooKeeper's is {here}: is --zookeeper right?"
            )
        found.setdefault(broker, []).append(path)
    return found


def _named(text: str) -> NamedLogDir | None:
    match = _NAMED.fullmatch(text)
    if match is None or (match["broker"] is None and re.match(r"\d*=", text)):
        return None
    return NamedLogDir(None if match["broker"] is None else int(match["broker"]), Path(os.path.abspath(match["path"])))
