"""What tests ask of the board's page in a browser."""

from __future__ import annotations

import asyncio

from tools.browser import Browser

LIMIT_S = 90.0
COUNTS = """Object.fromEntries([...document.querySelectorAll('.column')].map(column =>
    [column.className.match(/c-(\\w+)/)[1], column.querySelector('.value').textContent]))"""
"""How many topics each column says that it has."""
EXPLAINED = "document.getElementById('explain').open && document.getElementById('explain-body').innerText"
"""What is said of a topic, or false."""


async def until(browser: Browser, expression: str, limit_s: float = LIMIT_S) -> object:
    """Awaits that the expression is true in the page; its value."""
    async with asyncio.timeout(limit_s):
        while not (value := await browser.evaluate(expression)):
            await asyncio.sleep(0.02)
        return value
