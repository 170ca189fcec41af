"""Reads the metadata caches of brokers for the core: one at a time, on a thread, with a time limit.

In a large cluster the answer has megabytes and takes a second to decode. So the whole exchange runs on a thread with
its own event loop, and pings, channels and steps continue. No state is kept between reads.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lethe.adapters.kafka.client import ClientError, KafkaConnection
from lethe.adapters.kafka.metadata import ask_metadata, why_incomplete
from lethe.controller.core.effects import ReadCache
from lethe.controller.core.events import CacheRead
from lethe.protocol.kafka.cached_topics import cached_topics, undecided_topics
from lethe.protocol.kafka.framing import ProtocolError
from lethe.protocol.vocabulary import Endpoint

ConnectToAsk = Callable[[Endpoint], Awaitable[KafkaConnection]]
"""Opens a connection; raises ConnectionFailed."""

READ_LIMIT_MS: Final = 60_000
"""From connecting to the decoded answer."""


class CacheReader:
    """Performs `ReadCache` effects in order. Use it on one event loop, and call `end` once no result is needed."""

    def __init__(
        self,
        connect: ConnectToAsk,
        post: Callable[[CacheRead], None],
        fault: Callable[[Exception, str], None],
        *,
        limit_ms: int = READ_LIMIT_MS,
    ) -> None:
        self._connect = connect
        self._post = post
        self._fault = fault
        self._limit_ms = limit_ms
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="controller-caches")
        self._lock = threading.Lock()
        self._cancel: Callable[[], object] | None = None
        """Cancels the read in progress."""
        self._has_ended = False

    def read(self, effect: ReadCache) -> None:
        """Start a read. `CacheRead` is posted in every case, unless `end` is called first."""
        asyncio.get_running_loop().run_in_executor(self._thread, self._run, effect).add_done_callback(self._done)

    def end(self) -> None:
        """Cancel the read in progress; nothing is posted any more."""
        with self._lock:
            self._has_ended = True
            if self._cancel is not None:
                self._cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _done(self, done: asyncio.Future[CacheRead | None]) -> None:
        if self._has_ended or done.cancelled():
            return
        error = done.exception()
        if isinstance(error, Exception):
            self._fault(error, "reading a metadata cache")
        elif (event := done.result()) is not None:
            self._post(event)

    # --- on the thread --------------------------------------------------------------------------------------------

    def _run(self, effect: ReadCache) -> CacheRead | None:
        """Return the result of the read; None where `end` was called."""
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            reading = loop.create_task(self._read(effect))
            with self._lock:
                if self._has_ended:
                    reading.cancel()
                self._cancel = functools.partial(loop.call_soon_threadsafe, reading.cancel)
            try:
                return loop.run_until_complete(reading)
            except asyncio.CancelledError:
                return None
            finally:
                with self._lock:
                    self._cancel = None

    async def _read(self, effect: ReadCache) -> CacheRead:
        try:
            async with asyncio.timeout(self._limit_ms / 1000):
                connection = await self._connect(effect.endpoint)
                try:
                    return await _asked(connection, effect)
                finally:
                    await connection.close()
        except TimeoutError:
            problem = f"its metadata cache could not be read within {self._limit_ms} ms"
        except (ClientError, ProtocolError) as error:
            problem = f"its metadata cache could not be read: {error}"
        return CacheRead(effect.id, effect.broker, None, problem)


async def _asked(connection: KafkaConnection, effect: ReadCache) -> CacheRead:
    answer = await ask_metadata(connection, effect.topics)
    if undecided := undecided_topics(answer.topics):
        return CacheRead(
            effect.id, effect.broker, None, f"it does not tell whether it has the topic {undecided[0].name}"
        )
    problem = await why_incomplete(connection) if effect.topics is None else None
    return CacheRead(effect.id, effect.broker, cached_topics(answer.topics), problem)
