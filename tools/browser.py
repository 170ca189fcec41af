"""A page shown in Debian's Chromium by Playwright, for tests and for the pictures in docs/.

    async with open_page("file:///tmp/report.html", width=390, height=844) as view:
        assert not view.requests and not view.complaints
        await view.page.screenshot(path="phone.png")

Playwright's own browsers are never downloaded. Each call starts a browser, unless it is given one; each page has a
profile of its own.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING: Final = "no Chromium is installed (apt-get install chromium)"
LIMIT_S: Final = 180.0
"""For the browser's start, a page's load and each condition: a busy machine takes minutes for what takes a second."""
_PHONE_WIDTH: Final = 600


class BrowserMissing(Exception):
    """No Chromium is installed."""


def find_browser() -> str | None:
    """Return the path of a Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass(slots=True)
class View:
    """A page, and what happened while it was shown."""

    page: Page
    requests: list[str] = field(default_factory=list)
    """URLs besides the page's own and those that contain their data."""
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of the console, exceptions, violations of the page's policy."""


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """Start a browser for several pages. Raises BrowserMissing, playwright's Error."""
    path = find_browser()
    if path is None:
        raise BrowserMissing(MISSING)
    async with (
        async_playwright() as playwright,
        # Without a sandbox, which root cannot have.
        await playwright.chromium.launch(
            executable_path=path, chromium_sandbox=False, timeout=LIMIT_S * 1000
        ) as browser,
    ):
        yield browser


@asynccontextmanager
async def open_page(
    url: str, *, width: int, height: int, dark: bool = False, browser: Browser | None = None
) -> AsyncIterator[View]:
    """Show the page in a window of that size, in pixels; it is loaded. Raises as `open_browser`."""
    async with AsyncExitStack() as stack:
        if browser is None:
            browser = await stack.enter_async_context(open_browser())
        page = await browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            is_mobile=width < _PHONE_WIDTH,
        )
        stack.push_async_callback(page.close)
        page.set_default_timeout(LIMIT_S * 1000)
        view = View(page)

        def on_request(request: Request) -> None:
            if request.url.split("#")[0] != url.split("#")[0] and not request.url.startswith("data:"):
                view.requests.append(request.url)

        def on_console(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning", "assert"):
                view.complaints.append(message.text)

        page.on("request", on_request)
        page.on("console", on_console)
        page.on("pageerror", lambda error: view.complaints.append(str(error)))
        await page.goto(url)
        yield view


async def until(page: Page, expression: str, limit_s: float = LIMIT_S) -> None:
    """Wait until the expression is true in the page. Raises TimeoutError.

    Playwright's wait_for_function evaluates strings inside the page, which the board's policy forbids.
    """
    async with asyncio.timeout(limit_s):
        while not await page.evaluate(expression):  # noqa: ASYNC110 — the condition is in another process
            await asyncio.sleep(0.02)
