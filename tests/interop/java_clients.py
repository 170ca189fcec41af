"""Kafka's own command-line clients, as anybody runs them, each in a small JVM."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from lethe.cluster.java import java_executable
from lethe.cluster.kafka import kafka_command, quick_flags
from lethe.cluster.kafka_fetch import KafkaDistribution

HEAP_MB = 96
LIMIT_S = 180.0
LOGGING = """\
log4j.rootLogger=WARN, errors
log4j.appender.errors=org.apache.log4j.ConsoleAppender
log4j.appender.errors.Target=System.err
log4j.appender.errors.layout=org.apache.log4j.SimpleLayout
"""


@asynccontextmanager
async def running(
    kafka: KafkaDistribution, tool: str, arguments: Sequence[str], directory: Path, jvm_flags: Sequence[str] = ()
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The tool with its three streams; killed where it still runs at the end. Its errors go to a file of its name."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "log4j.properties").write_text(LOGGING)
    java = java_executable("Kafka's tools")
    flags = (*quick_flags(kafka, java), *jvm_flags)
    command = kafka_command(java, kafka.classpath, directory, HEAP_MB, (kafka.tool(tool), *arguments), flags)
    with (directory / f"{tool}.err").open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors, env=dict(os.environ)
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def run(
    kafka: KafkaDistribution, tool: str, arguments: Sequence[str], directory: Path, jvm_flags: Sequence[str] = ()
) -> str:
    """What the tool prints; it must succeed."""
    code, output, errors = await _ended(kafka, tool, arguments, directory, jvm_flags)
    assert code == 0, f"{tool} ended with {code}:\n{output}\n{errors}"
    return output


async def attempt(kafka: KafkaDistribution, tool: str, arguments: Sequence[str], directory: Path) -> tuple[int, str]:
    """The tool's exit code, and what it prints, errors included; it may fail."""
    errors_before = (directory / f"{tool}.err").stat().st_size if (directory / f"{tool}.err").exists() else 0
    code, output, errors = await _ended(kafka, tool, arguments, directory)
    return code, output + errors[errors_before:]


async def _ended(
    kafka: KafkaDistribution, tool: str, arguments: Sequence[str], directory: Path, jvm_flags: Sequence[str] = ()
) -> tuple[int, str, str]:
    """Exit code, output and all errors that the tool has written into this directory."""
    async with running(kafka, tool, arguments, directory, jvm_flags) as process, asyncio.timeout(LIMIT_S):
        output, _ = await process.communicate()
    assert process.returncode is not None
    errors = (directory / f"{tool}.err").read_text(errors="replace")
    return process.returncode, output.decode(), errors
