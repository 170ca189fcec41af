import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest

from lethe.adapters.logs import LogFormat, QueuedStreamHandler, configure_logging, fields


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)
    for handler in root.handlers[:]:
        if isinstance(handler, QueuedStreamHandler):
            root.removeHandler(handler)
            handler.close()


def test_text_lines_carry_level_logger_message_and_fields() -> None:
    stream = io.StringIO()
    handler = configure_logging("info", LogFormat.TEXT, stream)
    logging.getLogger("controller.loop").info("elected", extra=fields(epoch=7, controller=1001))
    logging.getLogger("controller.loop").debug("not shown")
    handler.close()
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("INFO    controller.loop: elected [epoch=7 controller=1001]")


def test_a_text_of_a_peer_writes_no_line_of_its_own() -> None:
    stream = io.StringIO()
    handler = configure_logging("info", LogFormat.TEXT, stream)
    logging.getLogger("x").info("it said %s", "a\nERROR forged\0\x1b[2J", extra=fields(topic="b\nERROR forged\u2028"))
    handler.close()
    first, second = stream.getvalue().splitlines()
    assert first.endswith("x: it said a")
    assert second == "    ERROR forged\\x00\\x1b[2J [topic=b\\nERROR forged\\u2028]"


def test_json_lines_carry_the_traceback() -> None:
    stream = io.StringIO()
    handler = configure_logging("INFO", LogFormat.JSON, stream)
    try:
        raise LookupError("no such thing")
    except LookupError:
        logging.getLogger("x").exception("failed", extra=fields(topic="orders"))
    handler.close()
    document = json.loads(stream.getvalue())
    assert document["message"] == "failed"
    assert document["topic"] == "orders"
    assert "LookupError: no such thing" in document["exception"]
    assert document["time"].endswith("Z")


def test_a_second_set_up_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging("INFO", LogFormat.TEXT, first)
    configure_logging("INFO", LogFormat.TEXT, second).flush()
    logging.getLogger("x").warning("once")
    configure_logging("INFO", LogFormat.TEXT, io.StringIO())
    assert "once" not in first.getvalue()
    assert second.getvalue().count("once") == 1


def test_an_unknown_level_is_named() -> None:
    with pytest.raises(ValueError, match="'LOUD'"):
        configure_logging("LOUD")


class StalledStream(io.StringIO):
    """Blocks in its first write until released, as a pipe that nobody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.released = threading.Event()

    def write(self, text: str) -> int:
        self.entered.set()
        assert self.released.wait(30)
        return super().write(text)


def test_a_stalled_stream_blocks_nobody_and_the_loss_is_told() -> None:
    stream = StalledStream()
    handler = QueuedStreamHandler(stream, max_lines=2)
    record = logging.LogRecord("x", logging.INFO, __file__, 1, "line", None, None)
    handler.emit(record)
    assert stream.entered.wait(30)
    for _ in range(5):
        handler.emit(record)
    stream.released.set()
    handler.close()
    assert "3 log lines were dropped" in stream.getvalue()
    assert stream.getvalue().count("line\n") == 3


def test_a_message_that_cannot_be_formatted_does_not_raise() -> None:
    stream = io.StringIO()
    handler = QueuedStreamHandler(stream)
    handler.emit(logging.LogRecord("x", logging.INFO, "some/file.py", 12, "%d", ("no number",), None))
    handler.close()
    assert "a log message of x could not be formatted: '%d'" in stream.getvalue()
