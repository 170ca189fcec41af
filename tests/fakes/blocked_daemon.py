"""A daemon in a process of its own, whose event loop stands still for good once it is told to (SIGUSR1).

Run as `python -m tests.fakes.blocked_daemon controller|agent DIRECTORY`, with a ZooKeeper of its own inside. It says
where it answers over HTTP and, as the last thing ever, `blocked`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import uvloop

from lethe.adapters.kafka.client import ConnectionFailed
from lethe.adapters.service_manager import service_manager
from lethe.broker.runtime.app import AgentApp
from lethe.controller.runtime.app import ControllerApp
from lethe.controller.runtime.brokers import BrokerConnection
from lethe.protocol.vocabulary import Endpoint
from tests.fakes.agents import agent_config
from tests.fakes.runtime import controller_config, reach
from tests.fakes.zookeeper import FakeZooKeeper


def block() -> None:
    """Never returns, as a callback that loops does not."""
    say("blocked")
    while True:
        pass


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def connect(endpoint: Endpoint) -> BrokerConnection:
    raise ConnectionFailed(f"there is no broker at {endpoint}")


async def main(daemon: str, directory: Path) -> int:
    zookeeper, manager = FakeZooKeeper(), service_manager(os.environ)
    app: ControllerApp | AgentApp
    if daemon == "controller":
        app = ControllerApp(controller_config(1001), zookeeper.open_session, connect, manager=manager)
    else:
        app = AgentApp(agent_config(directory), zookeeper.open_session, manager=manager)
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(app.run(), name=daemon)
        await reach(lambda: app.http is not None)
        assert app.http is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, block)
        say(app.http.url)
    return run.result()


if __name__ == "__main__":
    sys.exit(uvloop.run(main(sys.argv[1], Path(sys.argv[2]))))
