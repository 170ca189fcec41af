"""The report in a real browser: it asks for nothing, complains of nothing, and fits a phone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from lethe.pipeline.report.formatting import duration, number, size
from lethe.pipeline.report.page import page
from lethe.pipeline.report.read import read_report
from tests.fakes.report_lake import span, write_lake
from tests.fakes.weeks_lake import write_weeks
from tools.browser import MISSING, find_browser, open_browser, open_page, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),
    pytest.mark.skipif(find_browser() is None, reason=MISSING),
]
HOSTILE = "</script><script>alert(1)</script><img src=http://127.0.0.1:1/x onerror=alert(1)>"
WIDE = "document.documentElement.scrollWidth - window.innerWidth"
CUT = (
    "[...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth + 1)"
    ".map(box => box.querySelector('caption').textContent)"
)
"""Captions of tables that are wider than the page."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One for all tests; each page has a profile of its own."""
    async with open_browser() as found:
        yield found


@pytest.fixture(scope="module", params=["usual", "hostile", "several days", "weeks"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page of its own for each kind of lake."""
    directory = tmp_path_factory.mktemp("report")
    days = 5 if request.param == "several days" else 1
    hostile = request.param == "hostile"
    if request.param == "weeks":
        lake = write_weeks(directory)
    else:
        lake = write_lake(directory, 60, days=days, name=lambda text: HOSTILE + text if hostile else text)
    out = directory / "report.html"
    out.write_text(page(read_report(str(lake))), encoding="utf-8")
    return out.as_uri()


async def test_the_page_asks_for_nothing_complains_of_nothing_and_fits(browser: Browser, url: str) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    for width, height, dark in ((1440, 900, False), (375, 812, True)):
        async with open_page(url, width=width, height=height, dark=dark, browser=browser) as view:
            assert view.requests == []
            assert view.complaints == []
            assert await view.page.evaluate(WIDE) <= 0
            assert width > 600 or await view.page.evaluate(CUT) == []
            assert (await view.page.evaluate(ground) == "rgb(255, 255, 255)") is not dark
            await view.page.evaluate("document.querySelector('.theme').click()")
            assert (await view.page.evaluate(ground) == "rgb(16, 22, 28)") is not dark
    async with open_page(url, width=794, height=1123, browser=browser) as printed:
        await printed.page.emulate_media(media="print")
        assert printed.complaints == []
        assert await printed.page.evaluate(WIDE) <= 0
        table = "getComputedStyle(document.querySelector('.scroll.long')).maxHeight"
        assert await printed.page.evaluate(table) == "none"


@pytest.mark.parametrize("url", ["weeks"], indirect=True)
async def test_trends_fit_every_width_and_draw_gaps_as_gaps(browser: Browser, url: str) -> None:
    chart = "document.querySelector('.trend .chart')"
    for width, height, columns in ((1280, 900, 2), (375, 812, 1)):
        async with open_page(url, width=width, height=height, browser=browser) as view:
            page = view.page
            assert await page.evaluate("document.querySelectorAll('.trend').length") == 6
            lefts = "new Set([...document.querySelectorAll('.trend')].map(each => each.offsetLeft)).size"
            assert await page.evaluate(lefts) == columns
            assert await page.evaluate(f"{chart}.getBoundingClientRect().width") > 240
            hatched = "getComputedStyle(document.querySelector('.t-unseen')).fill"
            assert await page.evaluate(hatched) == 'url("#unseen")'
            assert await page.evaluate("document.querySelector('#unseen path') !== null")
            inside = (
                "[...document.querySelectorAll('.trend .chart > rect')].every(each => each.getBBox().width > 1"
                " && each.getBBox().height <= 120.5)"
            )
            assert await page.evaluate(inside)
            await page.evaluate("document.querySelector('#trends details').open = true")
            assert await page.evaluate(WIDE) <= 0
            assert await page.evaluate(CUT) == []
            assert view.complaints == []


@pytest.mark.parametrize("url", ["usual", "hostile", "several days"], indirect=True)
async def test_all_deletions_are_paged_sorted_filtered_and_opened(browser: Browser, url: str) -> None:
    async with open_page(url, width=1440, height=900, browser=browser) as view:
        page = view.page
        await until(page, "document.querySelector('.pager') !== null")
        rows = "[...document.querySelectorAll('.timelines > tbody > tr')]"
        status = "document.querySelector('.pager [role=status]').textContent"
        assert await page.evaluate("document.querySelectorAll('.without-script').length") == 0
        assert await page.evaluate(status) == "1–50 of 61 deletions"
        await page.get_by_role("button", name="Next").click()
        assert (await page.evaluate(status), await page.evaluate(f"{rows}.length")) == ("51–61 of 61 deletions", 11)
        took = f"{rows}.map(row => row.cells[2].textContent)"
        for name, most in (("Deleted after", True), ("Deleted after", False)):
            await page.get_by_role("button", name=name, exact=True).click()
            shown = (await page.evaluate(took))[:1]
            known = [row["deleted_ms"] for row in (span(n, 0, waits=n % 3 != 0) for n in range(60))]
            assert shown == [duration(max(known) if most else min(known))]
        await page.get_by_label("Cause").select_option("waited for broker 3")
        assert await page.evaluate(status) == "1–41 of 41 deletions (61 in all)"
        await page.get_by_label("Marked from (UTC)").fill("2026-11-21T18:44")
        await page.get_by_label("to", exact=True).fill("2026-11-21T18:44")
        assert await page.evaluate(status) == "0 deletions (61 in all)"
        await page.get_by_label("to", exact=True).fill("")
        await page.get_by_role("searchbox", name="Topic").fill("demo-0007")
        assert await page.evaluate(status) == "1–1 of 1 deletion (61 in all)"
        opener = page.locator(".timelines > tbody > tr > th > button")
        await opener.press("Enter")
        assert await opener.get_attribute("aria-expanded") == "true"
        said = await page.evaluate(f"{rows}[1].innerText")
        for words in ("id-000007", "queued", "znodes gone", "120 of 120 replicas", "held", "1001, 1002"):
            assert words.lower() in said.lower()
        assert "lethe pipeline show controller_events --lake" in said
        assert "demo-0007' --from 2026-11-21 --to 2026-11-21" in said
        assert await page.evaluate(f"{rows}[1].querySelectorAll('table').length") == 2
        await page.set_viewport_size({"width": 375, "height": 812})
        assert await page.evaluate(WIDE) <= 0
        assert await page.evaluate(CUT) == []
        await opener.press("Enter")
        assert await page.evaluate(f"{rows}.length") == 1
        assert view.complaints == []


@pytest.mark.parametrize("url", ["usual"], indirect=True)
async def test_the_script_writes_numbers_as_the_page_does(browser: Browser, url: str) -> None:
    values = [0, 7, 999, 1_000, 4_236, 9_994, 9_996, 61_400, 99_940, 99_960, 3_599_400, 7_260_000, 90_061_000, 10**12]
    async with open_page(url, width=1440, height=900, browser=browser) as view:
        await until(view.page, "document.querySelector('.pager') !== null")
        for name, python in (("duration", duration), ("size", size), ("number", number)):
            written = await view.page.evaluate(f"values => values.map(window.lethe.formats.{name})", [*values, None])
            assert written == [python(value) for value in [*values, None]]


@pytest.mark.parametrize("url", ["usual"], indirect=True)
async def test_a_browser_that_cannot_unpack_has_the_first_rows(browser: Browser, url: str) -> None:
    page = await browser.new_page()
    await page.add_init_script("delete window.DecompressionStream")
    await page.goto(url)
    rows = "[...document.querySelectorAll('.timelines tbody tr')]"
    took = f"{rows}.map(row => Number(row.cells[2].dataset.sort ?? -1))"
    await page.evaluate("document.querySelector('.timelines thead th:nth-child(3) button').click()")
    values = await page.evaluate(took)
    assert (len(values), values) == (61, sorted(values, reverse=True))
    await page.evaluate("document.querySelector('.timelines thead th:nth-child(3) button').click()")
    again = await page.evaluate(took)
    assert again[:-1] == sorted(again[:-1])
    assert again[-1] == -1
    await page.evaluate(
        "(() => { const filter = document.querySelector('#timelines .filter');"
        " filter.value = 'demo-0007'; filter.dispatchEvent(new Event('input')); })()"
    )
    assert await page.evaluate(f"{rows}.filter(row => !row.hidden).length") == 1
    await page.close()
