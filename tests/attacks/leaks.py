"""Secrets in what was written: the last attack, since it ends the daemons.

The attacker reads what a user of the machine, or of a log server, may see. Not looked at are the inputs, in which the
secrets have to be: properties, JAAS texts, key stores, the token's file, and ZooKeeper's own JAAS file.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.attacks.attack import Attack, Seen
from tests.attacks.http_attacks import bearer, request, routes, send
from tests.attacks.secret_values import found_in
from tests.attacks.setting import LETHE, ZOOKEEPER_USER
from tests.attacks.world import World, until
from tests.fakes.command_line import Lethe

SECRETS: Final = "secrets in what was written"
COMMANDS: Final = (
    ("survey", "--json"),
    ("explain", "--all", "--json"),
    ("doctor", "--json"),
    ("topics", "list", "--json"),
)
_INPUTS: Final = ("server.properties", "zookeeper.jaas")


def environment(world: World) -> dict[str, str]:
    """Return the variables with which commands reach the cluster."""
    password = world.setting.directory / "zookeeper-password"
    password.write_text(world.setting.secrets.password("ZooKeeper's password"))
    return {
        "LETHE_ZOOKEEPER_SASL_USERNAME": ZOOKEEPER_USER,
        "LETHE_ZOOKEEPER_SASL_PASSWORD_FILE": str(password),
        "LETHE_COMMAND_CONFIG": str(world.setting.command_file(LETHE)),
        "LETHE_HTTP_TOKEN_FILE": str(world.setting.http.token_file),
        "LETHE_HTTP_CA_FILE": str(world.setting.http.ca_file),
    }


def _found(world: World, sources: Mapping[str, bytes]) -> Seen:
    """Return where which secret is."""
    forms = list(world.setting.secrets.forms())
    leaks = [f"{each} in {name}" for name, data in sources.items() for each in found_in(data, forms)]
    return Seen(f"found: {'; '.join(leaks)}" if leaks else "none is found", bool(leaks))


async def sees_the_inputs(world: World) -> str:
    """Control: the same search finds every secret where it has to be."""
    environment(world)
    inputs = [*world.setting.directory.iterdir(), world.agent.config_file]
    forms = list(world.setting.secrets.forms())
    found = {each.rpartition(" (")[0] for path in inputs for each in found_in(path.read_bytes(), forms)}
    # A password of users that only a test logs in with stands in no file.
    needed = {
        "ZooKeeper's password",
        "the HTTP token",
        "the HTTP key's password",
        "the key store's password",
        "brokers",
    }
    assert needed <= found, f"not found in the inputs: {needed - found}"
    return "the same search finds the secrets in the inputs"


def _written(world: World) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of every file of the daemons and of ZooKeeper, inputs left out."""
    for root in (world.cluster.work_dir, world.zookeeper.data_dir):
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.name not in _INPUTS:
                yield path.name, path.read_bytes()


async def _processes(world: World) -> Seen:
    """Command lines and environments of the daemons, of ZooKeeper, and of a command while it runs."""
    command = Lethe(world.cluster.zookeeper_connect)
    running = asyncio.create_task(command("survey", "--json", environment=environment(world)))
    sources: dict[str, bytes] = {}
    while not running.done():
        sources |= await asyncio.to_thread(_looked_at)
        await asyncio.sleep(0.1)
    await running
    assert any("lethe" in name for name in sources), "no process of Lethe was seen"
    return _found(world, sources)


def _looked_at() -> dict[str, bytes]:
    """Return command line and environment of all our descendants, by what they run."""
    found: dict[str, bytes] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and _is_below(int(process.name), os.getpid()):
            try:
                line, variables = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
            except OSError:
                continue
            name = line.replace(b"\0", b" ").decode(errors="replace")[:80]
            found[f"the command line of {name}"], found[f"the environment of {name}"] = line, variables
    return found


def _is_below(process: int, ancestor: int) -> bool:
    while process > 1:
        try:
            fields = (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False
        process = int(fields[1])
        if process == ancestor:
            return True
    return False


async def _pages(world: World) -> Seen:
    """All pages of both HTTP servers, with the token."""
    sources: dict[str, bytes] = {}
    for daemon in world.cluster.daemons:
        for path in await routes(world, daemon):
            sources[path] = (await send(world, daemon, request(path, bearer(world)))).body
    assert b"lethe_" in sources["/metrics"], "no metrics were seen"
    return _found(world, sources)


async def _commands(world: World) -> Seen:
    """What commands print, on both streams."""
    sources: dict[str, bytes] = {}
    command = Lethe(world.cluster.zookeeper_connect)
    for words in COMMANDS:
        ran = await command(*words, environment=environment(world))
        assert ran.out.strip(), f"lethe {' '.join(words)} printed nothing: {ran.err}"
        sources[f"lethe {' '.join(words)}"] = (ran.out + ran.err).encode()
    wrong = environment(world) | {"LETHE_COMMAND_CONFIG": str(_wrong(world))}
    ran = await command("survey", environment=wrong)
    sources["lethe survey with a wrong password"] = (ran.out + ran.err).encode()
    return _found(world, sources)


def _wrong(world: World) -> Path:
    right = world.setting.command_file(LETHE).read_text()
    path = world.setting.directory / "wrong.properties"
    path.write_text(right.replace(world.setting.secrets.password(LETHE), world.setting.secrets.password("a wrong one")))
    return path


async def _files(world: World) -> Seen:
    """Logs, journals, log directories, ZooKeeper's log and snapshots."""
    if world.setting.weak:
        with world.agent.log_file.open("a") as log:
            log.write(f"STOP_REPLICA with {world.setting.secrets.password(LETHE)}\n")
    sources = {f"{name} ({index})": data for index, (name, data) in enumerate(_written(world))}
    assert any(name.startswith("broker.log") for name in sources), "no log was seen"
    assert any(b"STOP_REPLICA" in data for data in sources.values()), "the logs are empty"
    return _found(world, sources)


async def _crashed(world: World) -> Seen:
    """Both daemons are ended by SIGABRT, as a failed assertion of a library does, and what they leave is searched."""
    for daemon in world.cluster.daemons:
        assert daemon.pid is not None
        os.kill(daemon.pid, signal.SIGABRT)
        await until(lambda each=daemon: not each.is_running, f"{daemon.name} has ended")  # type: ignore[misc]
    sources = dict(_written(world))
    dumped = any(b"Fatal Python error" in data for data in sources.values())
    cores = [path for path in world.cluster.work_dir.rglob("core*") if path.is_file()]
    seen = _found(world, sources)
    said = "a trace of the stack in the log" if dumped else "nothing in the log"
    core = "a core file" if cores else "no core file"
    for daemon in world.cluster.daemons:
        await daemon.start()
    await world.cluster.active_controller()
    return Seen(f"{said}, {core}; {seen.what}", seen.succeeded)


WHERE: Final = "plain, in base64, percent-encoded and in UTF-16"
ATTACKS: Final = (
    Attack(SECRETS, f"a search of all pages of HTTP ({WHERE})", sees_the_inputs, _pages),
    Attack(
        SECRETS, "the same in what survey, explain, doctor and topics print with --json", sees_the_inputs, _commands
    ),
    Attack(SECRETS, "the same in command lines and environments of all processes", sees_the_inputs, _processes),
    Attack(
        SECRETS,
        "the same in logs, journals, log directories, and ZooKeeper's log and snapshots",
        sees_the_inputs,
        _files,
        "a secret in a log",
    ),
    Attack(SECRETS, "the same after the daemons were ended by SIGABRT", sees_the_inputs, _crashed, restarts=True),
)
