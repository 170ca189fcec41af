"""Sink for the journal's lines that writes to a topic (see `adapters.journal_sink`), with aiokafka's producer.

Theory of operation. Everything here runs on the journal's thread, which may block. The producer lives in an event loop
that runs while lines are written. A batch is written when all in-sync replicas have acknowledged every line. The key of
a line is its source, so the lines of one daemon are in one partition, in order.

The producer is not idempotent. Idempotence needs producer ids from the controller, which may be the very process that
writes. So after a lost response a line may be in the topic twice, with the same id.

If brokers cannot be reached, the rest of the batch is retried for PATIENCE_S; so a broker's restart loses nothing while
the queue has room. After that the batch is dropped, and the journal counts and reports the loss. Each further batch
gets one attempt until one succeeds. After a failure, producer and event loop are discarded with all unsent lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from lethe.adapters.kafka.aiokafka_options import client_options, why_unreachable
from lethe.adapters.kafka.client import ClientError
from lethe.adapters.kafka.missing_rights import answer_words, grant_on_topic
from lethe.adapters.kafka.reach import BrokerReach
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.security.acls import Operation
from lethe.protocol.shell_words import option

PATIENCE_S: Final = 30.0
ATTEMPT_S: Final = 15.0
PAUSE_S: Final = 0.5
HASTE_S: Final = 1.0
"""Time limit of an attempt once the journal is being closed."""
FLUSH_S: Final = 0.5
REQUEST_TIMEOUT_MS: Final = 10_000
BATCH_BYTES: Final = 256 * 1024


class Producer(Protocol):
    """The required methods of a producer; tests provide their own."""

    async def deliver(self, key: bytes, lines: Sequence[bytes], acknowledged: Callable[[], None]) -> None:
        """Send the lines, and call `acknowledged` for each, in order. Raises ProducerFailed."""
        ...

    async def stop(self) -> None:
        """Close all connections."""
        ...


class ProducerFailed(Exception):
    """Lines could not be sent; the message says why. `is_final`: a retry of these lines is useless."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


StartProducer = Callable[[], Awaitable[Producer]]
"""Connect, in the running loop. Raises ProducerFailed."""


class TopicDestination:
    """Writes lines to the producer's topic."""

    def __init__(self, source: str, start: StartProducer, *, patience_s: float = PATIENCE_S) -> None:
        self._key = source.encode()
        self._start = start
        self._patience_s = patience_s
        self._has_failed = False
        self._hurried = threading.Event()
        self._lock = threading.Lock()
        self._runner: asyncio.Runner | None = None
        self._producer: Producer | None = None
        self._limit: asyncio.Timeout | None = None

    # --- the journal's thread -------------------------------------------------------------------------------------

    def write(self, lines: Sequence[bytes]) -> tuple[int, Exception | None]:
        """Send the lines; return how many from the first on were acknowledged, and the error that stopped the rest."""
        deadline_s = time.monotonic() + (0.0 if self._has_failed else self._patience_s)
        done = 0
        while True:
            sent, failed = self._attempt(lines[done:])
            done += sent
            if failed is None:
                self._has_failed = False
                return done, None
            self._discard()
            if failed.is_final or self._hurried.is_set() or time.monotonic() >= deadline_s:
                self._has_failed = True
                return done, failed
            self._hurried.wait(PAUSE_S)

    def close(self) -> None:
        """Discard the producer."""
        self._discard()

    def _attempt(self, lines: Sequence[bytes]) -> tuple[int, ProducerFailed | None]:
        with self._lock:
            if self._runner is None:
                self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
                self._runner.get_loop()
            runner = self._runner
        done = 0

        def acknowledged() -> None:
            nonlocal done
            done += 1

        try:
            runner.run(self._send(lines, acknowledged))
        except ProducerFailed as failed:
            return done, failed
        except Exception as error:  # noqa: BLE001 - the journal's thread goes on, whatever the producer raises
            return done, ProducerFailed(f"{type(error).__name__}: {error}")
        return done, None

    async def _send(self, lines: Sequence[bytes], acknowledged: Callable[[], None]) -> None:
        limit_s = HASTE_S if self._hurried.is_set() else ATTEMPT_S
        try:
            async with asyncio.timeout(limit_s) as self._limit:
                if self._producer is None:
                    self._producer = await self._start()
                await self._producer.deliver(self._key, lines, acknowledged)
        except TimeoutError:
            raise ProducerFailed(f"the brokers did not acknowledge within {limit_s:g} s") from None
        finally:
            self._limit = None

    def _discard(self) -> None:
        with self._lock:
            runner, self._runner = self._runner, None
        producer, self._producer = self._producer, None
        if runner is None:
            return
        if producer is not None:
            with contextlib.suppress(TimeoutError, ProducerFailed):
                runner.run(_within(HASTE_S, producer.stop()))
        runner.close()

    # --- any thread -----------------------------------------------------------------------------------------------

    def hasten(self) -> None:
        """Shorten the present attempt, and all later ones."""
        self._hurried.set()
        with self._lock:
            if self._runner is not None:
                self._runner.get_loop().call_soon_threadsafe(self._shorten)

    def _shorten(self) -> None:
        limit, loop = self._limit, asyncio.get_running_loop()
        if limit is not None and (when := limit.when()) is not None and not limit.expired():
            limit.reschedule(min(when, loop.time() + HASTE_S))


async def _within(limit_s: float, what: Awaitable[None]) -> None:
    async with asyncio.timeout(limit_s):
        await what


# --- aiokafka -----------------------------------------------------------------------------------------------------


class _AioKafka:
    """aiokafka's producer."""

    def __init__(
        self, servers: Sequence[str], topic: str, client_id: str, reach: BrokerReach, security: Mapping[str, Any]
    ) -> None:
        from aiokafka import AIOKafkaProducer

        # aiokafka logs the same failure several times a second; the journal reports it once.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        self._topic = topic
        self._principal = reach.principal
        self._why_unreachable = functools.partial(why_unreachable, reach, servers, client_id)
        self._producer = AIOKafkaProducer(
            bootstrap_servers=list(servers),
            client_id=client_id,
            acks="all",
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            max_batch_size=BATCH_BYTES,
            **security,
        )

    async def start(self) -> None:
        try:
            await self._producer.start()
        except Exception as error:
            # Also ValueError, if a broker does not prove that it has the user's credential.
            await self._producer.stop()
            why = await self._why_unreachable()
            own = f"the producer does not start, and a broker can be reached now: {type(error).__name__}: {error}"
            raise ProducerFailed(own if why is None else f"no broker can be reached: {why}") from error

    async def deliver(self, key: bytes, lines: Sequence[bytes], acknowledged: Callable[[], None]) -> None:
        from aiokafka.errors import (
            KafkaError,
            MessageSizeTooLargeError,
            TopicAuthorizationFailedError,
            UnknownTopicOrPartitionError,
        )

        receipts: list[asyncio.Future[object]] = []
        try:
            for line in lines:
                receipts.append(await self._producer.send(self._topic, line, key))  # noqa: PERF401 -- keeps the earlier
            for receipt in receipts:
                await receipt
                acknowledged()
        except UnknownTopicOrPartitionError as error:
            topic = option("--topic", self._topic)
            remedy = f"make it, with: lethe topics create {topic} --partitions 1 --replication-factor 3"
            raise ProducerFailed(f"there is no topic {self._topic}; {remedy}") from error
        except TopicAuthorizationFailedError as error:
            grant = grant_on_topic(Operation.WRITE, self._topic)
            raise ProducerFailed(answer_words(ErrorCode.TOPIC_AUTHORIZATION_FAILED, self._principal, grant)) from error
        except MessageSizeTooLargeError as error:
            raise ProducerFailed(f"a line is longer than the producer takes: {error}", is_final=True) from error
        except (KafkaError, OSError) as error:
            raise ProducerFailed(str(error) or type(error).__name__) from error
        finally:
            for receipt in receipts:
                # Retrieve the exceptions of the other receipts, or asyncio would log them.
                if not receipt.cancel() and not receipt.cancelled():
                    receipt.exception()

    async def stop(self) -> None:
        from aiokafka.errors import KafkaError

        try:
            # A flush would wait for absent brokers; the loop ends next, with everything left in it.
            async with asyncio.timeout(FLUSH_S):
                await self._producer.stop()
        except (KafkaError, OSError):
            pass
        finally:
            await self._producer.client.close()


def aiokafka_producer(servers: Sequence[str], topic: str, client_id: str, reach: BrokerReach) -> StartProducer:
    """Return a function that starts producers for the topic. Without aiokafka its first call raises ImportError."""

    async def start() -> Producer:
        try:
            security = await client_options(reach)
        except ClientError as error:
            raise ProducerFailed(str(error)) from error
        producer = _AioKafka(servers, topic, client_id, reach, security)
        await producer.start()
        return producer

    return start
