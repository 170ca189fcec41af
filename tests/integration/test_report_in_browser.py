"""The report in a real browser: it asks for nothing, complains of nothing, and fits a phone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from lethe.pipeline.report.page import page
from lethe.pipeline.report.read import read_report
from tests.fakes.report_lake import write_lake
from tools.browser import MISSING, find_browser, open_browser, open_page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_browser() is None, reason=MISSING),
]
HOSTILE = "</script><script>alert(1)</script><img src=http://127.0.0.1:1/x onerror=alert(1)>"
WIDE = "document.documentElement.scrollWidth - window.innerWidth"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One for all tests; each page has a profile of its own."""
    async with open_browser() as found:
        yield found


@pytest.fixture(scope="module", params=["usual", "hostile", "several days"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page of its own for each kind of lake."""
    directory = tmp_path_factory.mktemp("report")
    days = 5 if request.param == "several days" else 1
    hostile = request.param == "hostile"
    lake = write_lake(directory, 60, days=days, name=lambda text: HOSTILE + text if hostile else text)
    out = directory / "report.html"
    out.write_text(page(read_report(str(lake))), encoding="utf-8")
    return out.as_uri()


async def test_the_page_asks_for_nothing_complains_of_nothing_and_fits(browser: Browser, url: str) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    for width, height, dark in ((1440, 900, False), (390, 844, True)):
        async with open_page(url, width=width, height=height, dark=dark, browser=browser) as view:
            assert view.requests == []
            assert view.complaints == []
            assert await view.page.evaluate(WIDE) <= 0
            assert (await view.page.evaluate(ground) == "rgb(255, 255, 255)") is not dark
            await view.page.evaluate("document.querySelector('.theme').click()")
            assert (await view.page.evaluate(ground) == "rgb(16, 22, 28)") is not dark
    async with open_page(url, width=794, height=1123, browser=browser) as printed:
        await printed.page.emulate_media(media="print")
        assert printed.complaints == []
        assert await printed.page.evaluate(WIDE) <= 0
        table = "getComputedStyle(document.querySelector('.scroll.long')).maxHeight"
        assert await printed.page.evaluate(table) == "none"


async def test_rows_are_sorted_and_filtered(browser: Browser, url: str) -> None:
    async with open_page(url, width=1440, height=900, browser=browser) as view:
        rows = "[...document.querySelectorAll('.timelines tbody tr')]"
        took = f"{rows}.map(row => Number(row.cells[2].dataset.sort ?? -1))"
        await view.page.evaluate("document.querySelector('.timelines thead th:nth-child(3) button').click()")
        values = await view.page.evaluate(took)
        assert values == sorted(values, reverse=True)
        await view.page.evaluate("document.querySelector('.timelines thead th:nth-child(3) button').click()")
        again = await view.page.evaluate(took)
        assert again[:-1] == sorted(again[:-1])
        assert again[-1] == -1
        await view.page.evaluate(
            "(() => { const filter = document.querySelector('#timelines .filter');"
            " filter.value = 'demo-0007'; filter.dispatchEvent(new Event('input')); })()"
        )
        assert await view.page.evaluate(f"{rows}.filter(row => !row.hidden).length") == 1
