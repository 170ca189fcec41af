"""Logging to standard error, as text for people or JSON lines for machines.

If standard error is a pipe without a reader or a file on a stalled disk, a write blocks. A controller must not wait for
its log, so a thread writes lines from a bounded queue. Lines that do not fit are counted; the count is written as a
separate line as soon as possible.

Fields for machines are passed as `extra=fields(topic="orders")`; the message is a sentence without them.
"""

from __future__ import annotations

import atexit
import datetime
import enum
import functools
import logging
import queue
import sys
import threading
from collections.abc import Mapping
from typing import Final, TextIO

import orjson

from lethe.protocol.counting import counted

QUEUE_LINES: Final = 10_000
"""Limit of lines that wait for the writing thread."""
_FLUSH_LIMIT_S: Final = 2.0
_FIELDS: Final = "lethe_fields"

FieldValue = None | bool | int | float | str


class LogFormat(enum.StrEnum):
    TEXT = "text"
    JSON = "json"


def fields(**values: FieldValue) -> Mapping[str, object]:
    """Return the argument `extra` of a logging call, which turns the values into fields."""
    return {_FIELDS: values}


def _fields_of(record: logging.LogRecord) -> Mapping[str, FieldValue]:
    found = getattr(record, _FIELDS, None)
    return found if isinstance(found, dict) else {}


def _timestamp(record: logging.LogRecord) -> str:
    return f"{_second(int(record.created))}.{int(record.msecs):03d}Z"


@functools.lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    """Format a time. Cached, because many lines share a second and formatting costs more than the rest of a line."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")


class TextFormatter(logging.Formatter):
    """`2026-01-02T03:04:05.678Z INFO    controller.loop: message [topic=orders]`, followed by the traceback.

    A message may quote what a peer has sent. So control characters are escaped, and further lines of a message are
    indented: no peer can write a line of its own.
    """

    def format(self, record: logging.LogRecord) -> str:
        said = "\n    ".join(map(_escaped, record.getMessage().split("\n")))
        line = f"{_timestamp(record)} {record.levelname:<7} {record.name}: {said}"
        values = _fields_of(record)
        if values:
            line += " [" + " ".join(f"{name}={_escaped(str(value))}" for name, value in values.items()) + "]"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _escaped(text: str) -> str:
    """Return the text with control characters and unpaired surrogates as `\\n`, `\\x00`, `\\ud800`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the fields, and `exception` with the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, object] = {
            "time": _timestamp(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_fields_of(record),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(document, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class QueuedStreamHandler(logging.Handler):
    """Formats on the calling thread, writes on its own; never blocks the caller and never raises."""

    def __init__(self, stream: TextIO, max_lines: int = QUEUE_LINES) -> None:
        super().__init__()
        self._stream = stream
        self._lines: queue.Queue[str | None] = queue.Queue(max_lines)
        self._dropped = 0
        self._count = threading.Lock()
        self._thread = threading.Thread(target=self._write_lines, name="log-writer", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 — a message that cannot be formatted must not take its caller down
            line = f"a log message of {record.name} could not be formatted: {record.msg!r}"
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            with self._count:
                self._dropped += 1

    def _write_lines(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._stream.write(line + "\n" + self._loss())
                if self._lines.empty():
                    self._stream.flush()
            except (OSError, ValueError):
                # The disk is full or the stream was closed, so the error cannot be logged.
                with self._count:
                    self._dropped += 1

    def _loss(self) -> str:
        with self._count:
            dropped, self._dropped = self._dropped, 0
        if not dropped:
            return ""
        text = (
            f"{counted(dropped, 'log line was', 'log lines were')} dropped: they came faster than they could be written"
        )
        return self.format(logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, None, None)) + "\n"

    def close(self) -> None:
        """Write queued lines, for at most two seconds."""
        try:
            self._lines.put(None, timeout=_FLUSH_LIMIT_S)
        except queue.Full:
            return
        if self._thread is not threading.current_thread():
            self._thread.join(_FLUSH_LIMIT_S)
        super().close()


def configure_logging(
    level: str = "INFO", log_format: LogFormat = LogFormat.TEXT, stream: TextIO | None = None
) -> QueuedStreamHandler:
    """Send every logger's output to `stream` (default: standard error), replacing an earlier configuration.

    Closing the returned handler flushes it, as does the interpreter's exit. Raises ValueError for an unknown level.
    """
    handler = QueuedStreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else TextFormatter())
    root = logging.getLogger()
    try:
        root.setLevel(level.upper())
    except ValueError as error:
        handler.close()
        raise ValueError(f"unknown log level {level!r}: one of DEBUG, INFO, WARNING, ERROR, CRITICAL") from error
    for old in root.handlers[:]:
        if isinstance(old, QueuedStreamHandler):
            root.removeHandler(old)
            old.close()
    root.addHandler(handler)
    # Client libraries log each request or connection, which operators do not need.
    for chatty in ("aiohttp.access", "aiozk", "asyncio"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    _look_nothing_up()
    atexit.register(handler.close)
    return handler


def _look_nothing_up() -> None:
    """Skip the collection of call site, thread and process, which neither format shows.

    The logging HOWTO of Python's documentation names these switches, under "Optimization".
    """
    logging._srcfile = None  # noqa: SLF001 -- documented, without another name
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
