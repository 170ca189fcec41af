"""The board in a real browser, with 1,000 topics in deletion on a whole controller."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.fakes.board_page import COUNTS, EXPLAINED, until
from tests.fakes.board_scene import Scene, busy_scene, release
from tests.fakes.runtime import reach
from tools.browser import Browser, View, find_browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_browser() is None, reason="no Chromium is installed (apt-get install chromium)"),
]
WIDE = "document.documentElement.scrollWidth - window.innerWidth"
FOCUSED = "document.activeElement.dataset.topic ?? document.activeElement.id"
ODD = ["__proto__", "constructor", "a" * 249]


async def press(browser: Browser, key: str) -> None:
    text = "\r" if key == "Enter" else ""
    code = {"Enter": 13, "Escape": 27, "Tab": 9}.get(key, 0)
    for kind in ("keyDown", "keyUp"):
        extra = {"text": text} if text and kind == "keyDown" else {}
        await browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **extra)


@asynccontextmanager
async def shown(scene: Scene, width: int = 1440, height: int = 900, dark: bool = False) -> AsyncIterator[Browser]:
    async with Browser() as browser:
        view = await browser.open(scene.url + "/", width=width, height=height, dark=dark)
        await until(browser, f"({COUNTS}).started === '440'")
        yield browser
        assert_quiet(view, scene)


def assert_quiet(view: View, scene: Scene) -> None:
    assert view.complaints == []
    assert {url for url in view.requests if not url.startswith(scene.url + "/")} == set()


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with busy_scene(ODD) as found:
        yield found


async def test_columns_count_and_move_while_it_is_looked_at(scene: Scene) -> None:
    async with shown(scene) as browser:
        assert await browser.evaluate(COUNTS) == {
            "held": "12",
            "queued": "0",
            "started": "440",
            "acknowledged": "548",
            "removing": "0",
            "done": "40",
        }
        assert await browser.evaluate("document.getElementById('total').textContent") == "1,000"
        assert await browser.evaluate("document.querySelectorAll('.c-acknowledged .card').length") == 60
        assert await browser.evaluate("document.getElementById('connection').dataset.state") == "live"
        release(scene)
        await until(browser, f"({COUNTS}).done === '828'")
        after = await browser.evaluate(COUNTS)
        assert (after["started"], after["acknowledged"], after["held"]) == ("200", "0", "12")
        assert "4" in await browser.evaluate("document.getElementById('broker-rows').innerText")


async def test_why_a_topic_waits_by_click_and_by_keyboard(scene: Scene) -> None:
    async with shown(scene) as browser:
        await browser.evaluate("document.querySelector('.c-started .card.waits').click()")
        await until(browser, f"/not registered in ZooKeeper/.test({EXPLAINED})")
        await press(browser, "Escape")
        await until(browser, "!document.getElementById('explain').open")
        await browser.evaluate("document.querySelector('.card[tabindex=\"0\"]').focus()")
        assert await browser.evaluate("document.querySelectorAll('.card[tabindex=\"0\"]').length") == 1
        first = await browser.evaluate(FOCUSED)
        await press(browser, "ArrowDown")
        second = await browser.evaluate(FOCUSED)
        await press(browser, "ArrowRight")
        third = await browser.evaluate(FOCUSED)
        assert len({first, second, third}) == 3
        assert await browser.evaluate("document.activeElement.matches(':focus-visible')")
        await press(browser, "ArrowLeft")
        assert await browser.evaluate(FOCUSED) == second
        await press(browser, "Enter")
        await until(browser, f"{EXPLAINED} && /It waits for/i.test({EXPLAINED})")
        assert await browser.evaluate("document.getElementById('explain-title').textContent") == second
        await press(browser, "Escape")
        await until(browser, f"({FOCUSED}) === {json.dumps(second)}")


async def test_an_explanation_that_is_not_answered_any_more_says_so(scene: Scene) -> None:
    hangs = "(_, { signal }) => new Promise((_, no) => signal.addEventListener('abort', () => no(signal.reason)))"
    async with shown(scene) as browser:
        await browser.evaluate("document.querySelector('.c-started .card.waits').click()")
        await until(browser, f"/not registered in ZooKeeper/.test({EXPLAINED})")
        await browser.evaluate(f"(() => {{ window.fetch = {hangs}; }})()")
        await until(browser, f"/does not answer: stale, as of \\d/.test({EXPLAINED})")
        assert await browser.evaluate(f"/not registered in ZooKeeper/.test({EXPLAINED})")


async def test_the_focus_follows_a_topic_that_moves_on(scene: Scene) -> None:
    async with shown(scene) as browser:
        await browser.evaluate("document.querySelectorAll('.c-started .card:not(.waits)')[3].focus()")
        release(scene)
        await until(browser, f"({COUNTS}).done === '828'")
        assert await browser.evaluate("document.activeElement.classList.contains('card')")


async def test_filter_finds_what_is_not_shown_and_odd_names_are_text(scene: Scene) -> None:
    async with shown(scene) as browser:
        for name in ODD:
            await browser.evaluate(
                f"(() => {{ const f = document.getElementById('filter'); f.value = {json.dumps(name)};"
                " f.dispatchEvent(new Event('input')); })()"
            )
            topic = "document.querySelector('.c-started .card .topic')?.textContent"
            await until(browser, f"{topic} === {json.dumps(name)} && document.querySelectorAll('.card').length === 1")
        assert await browser.evaluate(WIDE) <= 0


async def test_what_others_have_written_is_text(scene: Scene) -> None:
    hostile = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    context = scene.app.loop.context
    async with shown(scene) as browser:
        name = next(iter(context.marks))
        context.marks[name] = context.marks[name]._replace(last_error=hostile)
        await scene.create(1, 1)
        await until(browser, f"document.getElementById('board').textContent.includes({json.dumps(hostile)})")
        await browser.evaluate(f"document.querySelector('.card[data-topic=\"{name}\"]').click()")
        await until(browser, f"({EXPLAINED} || '').includes({json.dumps(hostile)})")
        assert await browser.evaluate("document.querySelectorAll('img, main script').length") == 0
        assert "taken" not in await browser.evaluate("document.title")


async def test_dark_light_and_narrow(scene: Scene) -> None:
    for width, height, dark in ((1440, 900, True), (390, 844, False), (820, 1180, True)):
        async with shown(scene, width, height, dark) as browser:
            assert await browser.evaluate(WIDE) <= 0
            ground = "getComputedStyle(document.body).backgroundColor"
            assert (await browser.evaluate(ground) == "rgb(16, 22, 28)") is dark
            await browser.evaluate("document.getElementById('theme').click()")
            assert (await browser.evaluate(ground) == "rgb(16, 22, 28)") is not dark
            await browser.evaluate("document.querySelector('.c-started .card').click()")
            await until(browser, f"/It waits for/i.test({EXPLAINED})")
            assert await browser.evaluate(WIDE) <= 0


async def test_motion_is_left_out_for_who_wants_none(scene: Scene) -> None:
    async with shown(scene) as browser:
        features = [{"name": "prefers-reduced-motion", "value": "reduce"}]
        await browser.call("Emulation.setEmulatedMedia", media="", features=features)
        release(scene)
        await until(browser, f"({COUNTS}).done === '828'")
        names = "[...document.querySelectorAll('.came')].map(card => getComputedStyle(card).animationName)"
        assert set(await browser.evaluate(names)) == {"none"}


async def test_a_lost_connection_is_said(scene: Scene) -> None:
    async with Browser() as browser:
        await browser.open(scene.url + "/board", width=1440, height=900)
        await until(browser, "document.getElementById('connection').dataset.state === 'live'")
        scene.app.stop("SIGTERM")
        await reach(scene.task.done)
        await until(browser, "document.getElementById('connection').dataset.state === 'lost'")
        said = await browser.evaluate("document.getElementById('connection').innerText")
        assert "stale since" in said
        assert await browser.evaluate("document.body.classList.contains('stale')")
