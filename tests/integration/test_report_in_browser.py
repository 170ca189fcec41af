"""The report in a real browser: it asks for nothing, complains of nothing, and fits a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.pipeline.report.page import page
from lethe.pipeline.report.read import read_report
from tests.fakes.report_lake import write_lake
from tools.browser import Browser, find_browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_browser() is None, reason="no Chromium is installed (apt-get install chromium)"),
]
HOSTILE = "</script><script>alert(1)</script><img src=http://127.0.0.1:1/x onerror=alert(1)>"
WIDE = "document.documentElement.scrollWidth - window.innerWidth"


@pytest.fixture(params=["usual", "hostile", "several days"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A page of its own for each kind of lake."""
    days = 5 if request.param == "several days" else 1
    lake = write_lake(tmp_path, 60, days=days, name=lambda text: HOSTILE + text if request.param == "hostile" else text)
    out = tmp_path / "report.html"
    out.write_text(page(read_report(str(lake))), encoding="utf-8")
    return out.as_uri()


async def test_the_page_asks_for_nothing_complains_of_nothing_and_fits(url: str) -> None:
    async with Browser() as browser:
        for width, height, dark in ((1440, 900, False), (390, 844, True)):
            view = await browser.open(url, width=width, height=height, dark=dark)
            assert view.requests == []
            assert view.complaints == []
            assert await browser.evaluate(WIDE) <= 0
            ground = await browser.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (ground == "rgb(255, 255, 255)") is not dark
        printed = await browser.open(url, width=794, height=1123, is_print=True)
        assert printed.complaints == []
        assert await browser.evaluate(WIDE) <= 0
        assert await browser.evaluate("getComputedStyle(document.querySelector('.scroll.long')).maxHeight") == "none"


async def test_rows_are_sorted_and_filtered(url: str) -> None:
    async with Browser() as browser:
        await browser.open(url, width=1440, height=900)
        rows = "[...document.querySelectorAll('.timelines tbody tr')]"
        took = f"{rows}.map(row => Number(row.cells[2].dataset.sort ?? -1))"
        await browser.evaluate("document.querySelector('.timelines thead th:nth-child(3) button').click()")
        values = await browser.evaluate(took)
        assert values == sorted(values, reverse=True)
        await browser.evaluate("document.querySelector('.timelines thead th:nth-child(3) button').click()")
        again = await browser.evaluate(took)
        assert again[:-1] == sorted(again[:-1])
        assert again[-1] == -1
        await browser.evaluate(
            "(() => { const filter = document.querySelector('#timelines .filter');"
            " filter.value = 'demo-0007'; filter.dispatchEvent(new Event('input')); })()"
        )
        assert await browser.evaluate(f"{rows}.filter(row => !row.hidden).length") == 1


async def test_the_theme_can_be_changed(url: str) -> None:
    async with Browser() as browser:
        await browser.open(url, width=1440, height=900)
        await browser.evaluate("document.querySelector('.theme').click()")
        assert await browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 22, 28)"
