"""A real browser to look at a page with: Chromium, spoken to through its DevTools protocol.

async with Browser() as browser:
    view = await browser.open("file:///tmp/report.html", width=390, height=844)
    assert not view.requests and not view.complaints
    Path("phone.png").write_bytes(await browser.screenshot())
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
START_LIMIT_S: Final = 60.0
ANSWER_LIMIT_S: Final = 60.0
_OPTIONS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


class BrowserFailed(Exception):
    """Chromium did not start, or did not do what was asked."""


def find_browser() -> str | None:
    """The path of a Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass(slots=True)
class View:
    """What happened while a page was shown."""

    requests: list[str] = field(default_factory=list)
    """URLs besides the page's own and those that hold their data themselves."""
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of the console, exceptions, what the page's policy has forbidden."""


class Browser:
    """One Chromium with one tab, and a directory of its own; both are gone at the end."""

    def __init__(self) -> None:
        self._directory: Final = Path(tempfile.mkdtemp(prefix="lethe-browser-"))
        self._process: asyncio.subprocess.Process | None = None
        self._client: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._session: str | None = None
        self._number = 0
        self._view = View()
        self._address = ""

    async def __aenter__(self) -> Self:
        try:
            await asyncio.wait_for(self._start(), START_LIMIT_S)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _start(self) -> None:
        path = find_browser()
        if path is None:
            raise BrowserFailed("no Chromium is installed (apt-get install chromium)")
        self._process = await asyncio.create_subprocess_exec(
            path,
            *_OPTIONS,
            f"--user-data-dir={self._directory}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        port_file = self._directory / "DevToolsActivePort"
        while not (port_file.exists() and len(port_file.read_text().split()) == 2):
            if self._process.returncode is not None:
                raise BrowserFailed(f"{path} ended with {self._process.returncode}")
            await asyncio.sleep(0.05)
        port, target = port_file.read_text().split()
        self._client = aiohttp.ClientSession()
        self._socket = await self._client.ws_connect(f"ws://127.0.0.1:{port}{target}", max_msg_size=0)
        tab = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call("Target.attachToTarget", targetId=tab["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            await self.call(f"{domain}.enable")

    async def _close(self) -> None:
        if self._client is not None:
            await self._client.close()
        if self._process is not None and self._process.returncode is None:
            # Its helpers are in the process group that was made for it.
            os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    async def open(
        self, url: str, *, width: int, height: int, dark: bool = False, scale: float = 1.0, is_print: bool = False
    ) -> View:
        """Shows the page in a window of that size, until it is loaded and drawn."""
        self._view, self._address = View(), url
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.call("Emulation.setEmulatedMedia", media="print" if is_print else "", features=scheme)
        await self.call("Page.navigate", url=url)
        await self._until(lambda message: message.get("method") == "Page.loadEventFired")
        await self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        return self._view

    async def evaluate(self, expression: str) -> Any:
        """The value of that expression in the page; a promise is awaited. Raises BrowserFailed where it throws."""
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserFailed(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def screenshot(self, *, whole: bool = False, top: float = 0, height: float | None = None) -> bytes:
        """A PNG of the window, of the whole page, or of a strip of it."""
        if not whole and height is None:
            return base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])
        size = (await self.call("Page.getLayoutMetrics"))["cssContentSize"]
        clip = {"x": 0, "y": top, "width": size["width"], "height": height or size["height"] - top, "scale": 1}
        answer = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(answer["data"])

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One call of the protocol. Raises BrowserFailed with the browser's words."""
        assert self._socket is not None
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        await self._socket.send_json(message)
        answer = await self._until(lambda message: message.get("id") == number)
        if "error" in answer:
            raise BrowserFailed(f"{method}: {answer['error']}")
        found: dict[str, Any] = answer["result"]
        return found

    async def _until(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Takes messages in until that one; raises BrowserFailed where it does not come."""
        assert self._socket is not None
        async with asyncio.timeout(ANSWER_LIMIT_S):
            while True:
                received = await self._socket.receive()
                if received.type is not aiohttp.WSMsgType.TEXT:
                    raise BrowserFailed(f"the browser closed the connection: {received}")
                message: dict[str, Any] = received.json()
                self._note(message)
                if is_it(message):
                    return message

    def _note(self, message: dict[str, Any]) -> None:
        said = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                url = said["request"]["url"]
                if url.split("#")[0] != self._address.split("#")[0] and not url.startswith("data:"):
                    self._view.requests.append(url)
            case "Runtime.exceptionThrown":
                self._view.complaints.append(str(said["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if said["type"] in ("error", "warning", "assert"):
                self._view.complaints.append(str(said["args"]))
            case "Log.entryAdded" if said["entry"]["level"] in ("error", "warning"):
                self._view.complaints.append(said["entry"]["text"])
