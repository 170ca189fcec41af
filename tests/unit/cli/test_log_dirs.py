"""Log directories on the command line: lists, and directories that say themselves whose they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from lethe.cli.log_dirs import NamedLogDir, of_this_cluster, owned_log_dirs, parse_log_dir_lists
from lethe.protocol.kafka.disk_formats import META_PROPERTIES
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, SetData
from lethe.protocol.zookeeper.znodes import encode_cluster_id
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply


def test_lists() -> None:
    assert parse_log_dir_lists(["/a, /b", "/c,3=/d,/e=f", "/g"]) == (
        NamedLogDir(None, Path("/a")),
        NamedLogDir(None, Path("/b")),
        NamedLogDir(None, Path("/c")),
        NamedLogDir(3, Path("/d")),
        NamedLogDir(3, Path("/e=f")),
        NamedLogDir(None, Path("/g")),
    )
    assert parse_log_dir_lists(["here"]) == (NamedLogDir(None, Path.cwd() / "here"),)


@pytest.mark.parametrize("text", ["", "/a,,/b", "3=", "=/a", "/a,"])
def test_what_is_no_list_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is no list of paths"):
        parse_log_dir_lists([text])


def made(path: Path, meta: str | None) -> NamedLogDir:
    path.mkdir()
    if meta is not None:
        (path / META_PROPERTIES).write_text(meta)
    return NamedLogDir(None, path)


async def owners(
    session: FakeSession, known: Mapping[int, Sequence[Path]], named: Sequence[NamedLogDir]
) -> dict[int, list[Path]]:
    """As the command does it: first what can be seen here, then the cluster."""
    return await of_this_cluster(session, owned_log_dirs(known, named))


@pytest.fixture
async def identified(session: FakeSession) -> FakeSession:
    await session.ensure_path(paths.CLUSTER_ID)
    await apply(session, SetData(paths.CLUSTER_ID, encode_cluster_id("here"), ANY_VERSION))
    return session


async def test_directories_say_whose_they_are(identified: FakeSession, tmp_path: Path) -> None:
    a = made(tmp_path / "a", "version=0\nbroker.id=3\ncluster.id=here\n")
    b = made(tmp_path / "b", "version=0\nbroker.id=1\n")
    c = NamedLogDir(1, tmp_path / "c")
    found = await owners(identified, {3: [a.path], 2: [tmp_path]}, [a, b, c])
    assert found == {3: [a.path], 2: [tmp_path], 1: [b.path, c.path]}


@pytest.mark.parametrize(
    "meta, words",
    [
        (None, "has no meta.properties that says which broker's it is; name the owner, as BROKER="),
        ("version=0\ncluster.id=here\n", "names no broker.id; name the owner, as BROKER="),
        ("version=1\nnode.id=3\n", "cannot be understood: version is '1'"),
        ("version=0\nbroker.id=3\ncluster.id=there\n", "is of the cluster there, and ZooKeeper's is here"),
    ],
)
async def test_an_owner_that_cannot_be_told_is_refused(
    identified: FakeSession, tmp_path: Path, meta: str | None, words: str
) -> None:
    with pytest.raises(ValueError, match=f"{tmp_path}/a.*{words}"):
        await owners(identified, {}, [made(tmp_path / "a", meta)])


@pytest.mark.parametrize(
    "meta, words",
    [
        ("version=0\nbroker.id=3\ncluster.id=there\n", "is of the cluster there, and ZooKeeper's is here"),
        ("version=0\nbroker.id=2\ncluster.id=here\n", "is broker 2's, as its meta.properties says, and not broker 3's"),
    ],
)
async def test_whose_it_is_is_not_overruled(identified: FakeSession, tmp_path: Path, meta: str, words: str) -> None:
    """Held against the topics of another cluster, or another broker's replicas, all of it would seem left over."""
    named = made(tmp_path / "a", meta)
    with pytest.raises(ValueError, match=words):
        await owners(identified, {3: [named.path]}, [])
    with pytest.raises(ValueError, match=words):
        await owners(identified, {}, [NamedLogDir(3, named.path)])


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="missing is not there"):
        owned_log_dirs({}, [NamedLogDir(None, tmp_path / "missing")])
    with pytest.raises(ValueError, match="file is no directory"):
        owned_log_dirs({}, [NamedLogDir(None, tmp_path / "file")])
