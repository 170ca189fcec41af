"""What is built installs one package, `lethe`, beside others that have the names of our rooms."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from lethe.cluster.spark import SparkCluster, SparkSettings
from tests.fakes.built import ROOT, built, ran
from tests.fakes.daemon_process import daemon

NEIGHBOURS = ("survey==5.4.2", "adapters==1.3.0")
"""Packages of PyPI with the names of two of our rooms."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("sdist"), "sdist")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


def _environment(directory: Path, requirements: str, wheel: Path) -> Path:
    """`bin` of a new environment that holds the wheel, what it requires, and the neighbours installed after it."""
    ran(sys.executable, "-m", "venv", directory, cwd=directory)
    pip = (directory / "bin" / "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check")
    for pins in ("build.txt", requirements):
        ran(*pip, "--require-hashes", "--no-build-isolation", "-r", ROOT / "requirements" / pins, cwd=directory)
    ran(*pip, "--no-deps", wheel, *NEIGHBOURS, cwd=directory)
    return directory / "bin"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _environment(tmp_path_factory.mktemp("environment"), "runtime.txt", wheel)


def _contents(wheel: Path) -> Sequence[str]:
    with zipfile.ZipFile(wheel) as archive:
        return sorted(archive.namelist())


def test_the_wheel_holds_one_package_with_every_file_of_every_room(wheel: Path) -> None:
    contents = {name for name in _contents(wheel) if ".dist-info/" not in name}
    rooms = [link for link in (ROOT / "lethe").iterdir() if link.is_symlink()]
    files = {
        f"lethe/{room.name}/{file.relative_to(room)}"
        for room in rooms
        for file in room.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    (script,) = {name for name in contents if ".data/scripts/" in name}
    assert script.endswith("/lethe-spark.py")
    assert contents == {"lethe/__init__.py", "lethe/__main__.py", "lethe/py.typed", script, *files}


def test_the_sdist_builds_the_same_wheel(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(sdist, tmp_path / "source")
    (source,) = (tmp_path / "source").iterdir()
    assert _contents(built(source, tmp_path / "built", "wheel")) == _contents(wheel)


def test_package_indexes_can_show_the_readme(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    said = ran(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel, cwd=tmp_path)
    assert said.count("PASSED") == 2


def test_commands_run_beside_packages_with_the_names_of_our_rooms(installed: Path, tmp_path: Path) -> None:
    assert "controller" in ran(installed / "lethe", "--help", cwd=tmp_path)
    assert "Usage: lethe survey" in ran(installed / "lethe", "survey", "--help", cwd=tmp_path)
    program = (
        "import importlib.metadata, importlib.util, pathlib, lethe.survey.take, lethe.adapters.http\n"
        "owned = {n: importlib.metadata.packages_distributions()[n] for n in ('lethe', 'survey', 'adapters')}\n"
        "print(owned, pathlib.Path(lethe.__file__).is_relative_to(pathlib.Path(__import__('sys').prefix)))"
    )
    said = ran(installed / "python", "-c", program, cwd=tmp_path).strip()
    assert said == "{'lethe': ['lethe-kafka'], 'survey': ['survey'], 'adapters': ['adapters']} True"


@pytest.mark.zookeeper
async def test_a_controller_runs_from_the_wheel(installed: Path, zookeeper_chroot: str, tmp_path: Path) -> None:
    lethe = (str(installed / "lethe"),)
    async with daemon("controller", tmp_path, 91, zookeeper_chroot, lethe=lethe) as running:
        await running.says("lethe.controller.")
        await running.says("elected")
        said = ran(installed / "lethe", "survey", "--zookeeper", zookeeper_chroot, cwd=tmp_path)
        running.process.send_signal(signal.SIGTERM)
        assert await running.ends() == 0, running.said
    assert "91" in said


@pytest.mark.long
def test_the_pipeline_of_the_wheel_runs_on_a_standalone_spark_cluster(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "environment").mkdir()
    installed = _environment(tmp_path / "environment", "pipeline.txt", wheel)
    journal = ROOT / "tests" / "pipeline" / "golden" / "journal"
    settings = ("spark.driver.host=127.0.0.1", "spark.executor.memory=1500m", "spark.sql.shuffle.partitions=1")
    with SparkCluster(tmp_path / "cluster", SparkSettings(workers=1, cores_per_worker=2)) as spark:
        said = ran(
            *(installed / "lethe", "pipeline", "run", "--json", "--master", spark.master),
            *("--lake", tmp_path / "lake", "--journal", journal),
            *(word for setting in settings for word in ("--conf", setting)),
            cwd=tmp_path,
        )
    (taken,) = json.loads(said)["taken"]
    lines = sum(len(file.read_bytes().splitlines()) for file in journal.iterdir())
    assert taken["new"] == taken["read"] == lines
    assert any((tmp_path / "lake" / "silver" / "deletion_spans").rglob("*.parquet"))
