"""A process that is asked line by line: it answers, is late, or ends."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.judge.driver import ClientsEnded, Conversation

LIMIT_S = 60.0
PROGRAM = """\
import json, sys, time
print("{}", flush=True)
for count, line in enumerate(sys.stdin):
    asked = json.loads(line)
    if asked["do"] == "hang":
        time.sleep(600)
    if asked["do"] == "end":
        sys.exit("the last words")
    print(json.dumps({"count": count}), flush=True)
"""


@asynccontextmanager
async def conversation(directory: Path) -> AsyncIterator[Conversation]:
    made = Conversation([sys.executable, "-c", PROGRAM], directory / "log")
    try:
        yield made
    finally:
        await made.close()


async def test_one_process_answers_all_questions(tmp_path: Path) -> None:
    async with conversation(tmp_path) as asked:
        assert [await asked.ask({"do": "answer"}, LIMIT_S) for _ in range(2)] == [{"count": 0}, {"count": 1}]


async def test_after_a_hang_another_process_answers(tmp_path: Path) -> None:
    async with conversation(tmp_path) as asked:
        assert await asked.ask({"do": "answer"}, LIMIT_S) == {"count": 0}
        assert await asked.ask({"do": "hang"}, 0.05) is None
        assert not asked.is_running
        assert await asked.ask({"do": "answer"}, LIMIT_S) == {"count": 0}


async def test_a_process_that_ends_is_no_answer(tmp_path: Path) -> None:
    async with conversation(tmp_path) as asked:
        with pytest.raises(ClientsEnded, match="the last words"):
            await asked.ask({"do": "end"}, LIMIT_S)


async def test_a_process_that_is_never_ready_is_ended_and_named(tmp_path: Path) -> None:
    asked = Conversation([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "log", start_limit_s=0.05)
    with pytest.raises(ClientsEnded, match="was not ready within 0.05 s"):
        await asked.ask({"do": "answer"}, LIMIT_S)
    assert not asked.is_running
