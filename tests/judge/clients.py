"""The clients of one side: each step goes to the process that has its client."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.cluster.kafka import CONTROLLED_SHUTDOWN_LIMIT_S
from lethe.cluster.kafka_fetch import KafkaUnavailable
from lethe.cluster.local import LocalCluster
from tests.judge.driver import Conversation
from tests.judge.java_steps import DRIVERS, JavaSteps
from tests.judge.sides import START_LIMIT_S, bootstrap, settle, topic_id
from tests.judge.step import LIMIT_S, Answer, Client, NotRun, Outcome, Step

SHOWS_LIMIT_S: Final = 20.0
WARM_UP_LIMIT_S: Final = 120.0
GRACE_S: Final = 30.0
"""How much longer a JVM has that is to say itself that a tool has not ended. It is killed then."""
SETTLE_LIMIT_S: Final = 30.0
UNSETTLED_LIMIT_S: Final = 1.0
"""For a cluster that has not come to rest after the step before either."""
_PLACEHOLDER: Final = re.compile(r"\{(id|dir):([^}]+)\}")


class Clients:
    """Clients of one cluster, used one after the other."""

    def __init__(self, cluster: LocalCluster, session: ZooKeeperSession, java: JavaSteps, directory: Path) -> None:
        self._cluster = cluster
        self._session = session
        self._java = java
        self._directory = directory
        self._conversations: dict[Client, Conversation] = {}
        self._has_settled = True

    async def close(self) -> None:
        """End all processes."""
        for each in self._conversations.values():
            await each.close()

    async def perform(self, step: Step) -> Outcome:
        """Return what the client says, once the cluster has come to rest."""
        if step.client in self._java.without:
            return NotRun(self._java.without[step.client])
        if step.client is Client.KCAT and shutil.which("kcat") is None:
            return NotRun("kcat is not installed (Debian: apt-get install kcat)")
        deadline = time.monotonic() + SHOWS_LIMIT_S
        while True:
            outcome = await self._once(step)
            if outcome.hangs or step.shows is None or time.monotonic() > deadline:
                break
            if re.search(step.shows, "\n".join(outcome.lines), re.DOTALL):
                break
            await asyncio.sleep(0.2)
        if not step.reads:
            await self._settle(step)
        return outcome

    async def _settle(self, step: Step) -> None:
        has_settled = await settle(self._session, SETTLE_LIMIT_S if self._has_settled else UNSETTLED_LIMIT_S)
        if self._has_settled and not has_settled:
            sys.stderr.write(f"the cluster has not come to rest after: {step.name}\n")
        self._has_settled = has_settled

    async def _once(self, step: Step) -> Answer:
        words = [await self._filled(word) for word in step.words]
        for name, content in step.files.items():
            (self._directory / name).write_text(content)
        # The start of a process is no part of a step's time.
        await self._ready(step.client)
        began = time.monotonic()
        if step.client is Client.CLUSTER:
            answer: dict[str, Any] | None = await self._act(words)
        elif step.client is Client.KCAT:
            answer = await self._kcat(words)
        elif step.client is Client.PYTHON:
            question = {"servers": await bootstrap(self._cluster), "words": words}
            answer = await self._conversation(Client.PYTHON).ask(question, LIMIT_S)
        else:
            answer = await self._tool(step.client, words)
        took_s = time.monotonic() - began
        if answer is None or answer["code"] is None:
            return Answer(None, (), took_s)
        errors = [f"stderr: {line}" for line in answer["err"].splitlines()]
        return Answer(int(answer["code"]), (*answer["out"].splitlines(), *errors), took_s)

    async def _filled(self, word: str) -> str:
        """The argument with what its placeholders stand for."""
        for found in _PLACEHOLDER.finditer(word):
            kind, name = found.groups()
            value = await topic_id(self._session, name) if kind == "id" else str(self._directory / name)
            word = word.replace(found[0], value)
        return word

    async def _tool(self, client: Client, words: list[str]) -> dict[str, Any] | None:
        address = ("--bootstrap-server", await bootstrap(self._cluster))
        arguments = [*address, *words] if client in DRIVERS else [*address, *words[1:]]
        try:
            main = self._java.main_class(client, words[0])
        except KafkaUnavailable as problem:
            return {"code": 127, "out": "", "err": str(problem)}
        question = {"class": main, "args": arguments, "limit_s": LIMIT_S}
        return await self._conversation(client).ask(question, LIMIT_S + GRACE_S)

    async def _kcat(self, words: list[str]) -> dict[str, Any] | None:
        command = ["kcat", "-b", await bootstrap(self._cluster), "-m", "20", *words]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        try:
            out, err = await asyncio.wait_for(process.communicate(), LIMIT_S)
        except TimeoutError:
            process.kill()
            await process.wait()
            return None
        return {"code": process.returncode, "out": out.decode(), "err": err.decode()}

    async def _act(self, words: list[str]) -> dict[str, Any]:
        action, number = words
        (broker,) = (each for each in self._cluster.all_brokers if each.id == int(number))
        if action == "start":
            await broker.start(START_LIMIT_S)
        elif action == "stop":
            await broker.stop(CONTROLLED_SHUTDOWN_LIMIT_S)
        else:
            raise ValueError(f"no such action: {action}")
        return {"code": 0, "out": "", "err": ""}

    async def _ready(self, client: Client) -> None:
        """Start the client's process. A JVM runs a tool first whose answer does not count: it loads Kafka's classes."""
        if client in (Client.CLUSTER, Client.KCAT) or self._conversation(client).is_running:
            return
        conversation = self._conversation(client)
        await conversation.start()
        if client is not Client.PYTHON:
            main = self._java.main_class(_process_of(client), "TopicCommand")
            arguments = ["--bootstrap-server", await bootstrap(self._cluster), "--list"]
            await conversation.ask({"class": main, "args": arguments, "limit_s": WARM_UP_LIMIT_S}, 2 * WARM_UP_LIMIT_S)

    def _conversation(self, client: Client) -> Conversation:
        process = _process_of(client)
        if process not in self._conversations:
            python = [sys.executable, "-m", "tests.judge.python_steps"]
            command = python if process is Client.PYTHON else self._java.command(process, self._directory)
            self._conversations[process] = Conversation(command, self._directory / f"{process.name.lower()}.err")
        return self._conversations[process]


def _process_of(client: Client) -> Client:
    """The client whose process answers for this one."""
    return Client.TOOLS if client in DRIVERS else client


@asynccontextmanager
async def clients_of(cluster: LocalCluster, java: JavaSteps, directory: Path) -> AsyncIterator[Clients]:
    """Start the cluster, and end it and all clients afterwards."""
    directory.mkdir(parents=True)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(cluster)
        session = await stack.enter_async_context(cluster.session())
        clients = Clients(cluster, session, java, directory)
        stack.push_async_callback(clients.close)
        await settle(session, SETTLE_LIMIT_S)
        yield clients
