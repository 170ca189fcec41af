"""The board in a real browser, with 1,000 topics in deletion on a whole controller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from lethe.adapters.config_http import HttpConfig
from lethe.controller.core.context import Role
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from tests.fakes.board_page import COUNTS, EXPLAINED
from tests.fakes.board_scene import CLUSTER_ID, Scene, busy_scene, quiet_scene, release, standby
from tests.fakes.runtime import reach
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tools.browser import MISSING, View, find_browser, open_browser, open_page, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(find_browser() is None, reason=MISSING),
]
WIDE = "document.documentElement.scrollWidth - window.innerWidth"
FOCUSED = "document.activeElement.dataset.topic ?? document.activeElement.id"
ODD = ["__proto__", "constructor", "a" * 249]


@asynccontextmanager
async def shown(
    scene: Scene, width: int = 1440, height: int = 900, dark: bool = False, browser: Browser | None = None
) -> AsyncIterator[Page]:
    async with open_page(scene.url + "/", width=width, height=height, dark=dark, browser=browser) as view:
        await until(view.page, f"({COUNTS}).started === '440'")
        yield view.page
        assert_quiet(view, scene)


def assert_quiet(view: View, scene: Scene) -> None:
    assert view.complaints == []
    assert {url for url in view.requests if not url.startswith(scene.url + "/")} == set()


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with busy_scene(ODD) as found:
        yield found


OPEN_GROUP = "document.querySelector('.c-started .card.group.waits').click()"
CONTRASTS = r"""(() => {
  const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), node = walker.currentNode.parentElement;
    if (!text || !node.getClientRects().length || node.closest("script, noscript")) continue;
    let ground = node;
    while (ground && (parse(getComputedStyle(ground).backgroundColor)[3] ?? 1) === 0) ground = ground.parentElement;
    const colours = [getComputedStyle(node).color, getComputedStyle(ground ?? document.body).backgroundColor];
    const [one, other] = colours.map((colour) => light(parse(colour)));
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${node.className || node.tagName}: ${text.slice(0, 40)}`);
  }
  return [...new Set(found)];
})()"""
WATCH_OTHERS = """(() => {
  window.seen = [];
  window.role = null;
  const take = (event) => {
    const told = JSON.parse(event.data).values?.controller;
    window.seen = told?.others ?? window.seen;
    window.role = told?.role ?? window.role;
  };
  const plain = window.fetch;
  window.fetch = async (path, ...rest) => {
    const response = await plain(path, ...rest);
    if (path !== "/board/events") return response;
    const [mine, other] = response.body.tee();
    (async () => {
      let left = "";
      for await (const piece of other.pipeThrough(new TextDecoderStream())) {
        const events = (left + piece).split("\\n\\n");
        left = events.pop();
        for (const each of events) take({ data: each.split("data: ")[1] });
      }
    })().catch(() => {});
    return new Response(mine, { status: response.status, headers: response.headers });
  };
})()"""
"""Keeps what the page's own stream has said of its controller and of others: a second stream may be ahead of it."""


async def test_topics_that_wait_for_the_same_are_one_card_that_opens(scene: Scene) -> None:
    async with shown(scene) as page:
        groups = "[...document.querySelectorAll('.c-started .card.group .topic')].map(each => each.textContent)"
        assert any("topics ← broker 4" in each for each in await page.evaluate(groups))
        before = await page.evaluate("document.querySelectorAll('.c-started .card').length")
        await page.evaluate("document.querySelector('.c-started .card.group').focus()")
        await page.keyboard.press("Enter")
        await until(page, f"document.querySelectorAll('.c-started .card').length > {before}")
        assert await page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
        await page.keyboard.press("Enter")
        await until(page, f"document.querySelectorAll('.c-started .card').length === {before}")


PACE = "document.getElementById('pace').textContent"


async def test_cluster_rate_time_left_and_what_is_unknown(scene: Scene) -> None:
    async with shown(scene) as page:
        await until(page, f"document.getElementById('about').innerText.includes({json.dumps(CLUSTER_ID)})")
        assert "freed bytes: unknown" in await page.evaluate(PACE)
        release(scene)
        await until(page, f"({COUNTS}).done === '828'")
        await until(page, f"/ \\d[\\d.,]* topics\\/s/.test({PACE})")
        assert "time left: unknown: all that is left waits" in await page.evaluate(PACE)


async def test_a_standby_that_takes_over_announces_that_and_nothing_old(scene: Scene) -> None:
    said = "document.getElementById('announcer').textContent"
    async with standby(scene) as url, open_page(url + "/board", width=1440, height=900) as view:
        page = view.page
        await until(page, f"/standing by/.test({said})")
        release(scene)
        scene.app.stop("SIGTERM")
        await until(page, f"/This controller is active/.test({said})")
        assert "standing by" not in await page.evaluate(said)
        assert "standing by" not in await page.evaluate("document.getElementById('notices').textContent")


async def test_a_controller_that_still_loads_says_that_it_has_not_seen_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with quiet_scene() as scene, open_page(scene.url + "/board", width=1440, height=900) as view:
        context, read = scene.app.loop.context, asyncio.Event()
        turn = FakeSession._turn

        async def held_while_loading(session: FakeSession) -> None:
            if context.role is Role.LOADING:
                await read.wait()
            await turn(session)

        await until(view.page, f"/nothing is in deletion/.test({PACE})")
        monkeypatch.setattr(FakeSession, "_turn", held_while_loading)
        await scene.write([Delete(paths.CONTROLLER)])
        notices = "document.getElementById('notices').textContent"
        await until(view.page, f"/has not read everything yet/.test({notices})")
        assert await view.page.evaluate(PACE) == ""
        read.set()
        await until(view.page, f"/nothing is in deletion/.test({PACE}) && !/not read everything/.test({notices})")


SAID_OF = """([trash, debts]) => import("/board/parts.js")
  .then((parts) => parts.keptNotices({ trash, debts }).map((each) => [each.className, each.textContent]))"""


async def test_notices_of_trash_and_debts_say_how_much_of_them_cannot_be_read() -> None:
    trash = {"counts": dict.fromkeys(("freezing", "trashed", "restoring", "offsets"), 0), "oldest_due_ms": None}
    debts = {"open": 0, "brokers": [], "size_bytes": 0, "since_ms": None, "unreadable_count": 2}
    some_known = {"open": 1, "brokers": [3], "size_bytes": 0, "since_ms": 1, "unreadable_count": 1}
    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(lambda _: None) as session:
        await session.ensure_path(paths.trash())
        await session.multi([Create(paths.trashed("orders"), b"?")])
    async with (
        quiet_scene(zookeeper=zookeeper) as scene,
        open_page(scene.url + "/board", width=1440, height=900) as view,
    ):
        notices = "document.getElementById('notices').textContent"
        await until(view.page, f"{notices} === 'In the trash: 0 topics. 1 entry cannot be read.'")
        told = await view.page.evaluate(SAID_OF, [{**trash, "unseen": "no answer", "unreadable_count": 0}, debts])
        assert told == [
            ["notice attention", "Which topics are in the trash is unknown: no answer."],
            ["notice attention", "2 znodes of debts cannot be read: what brokers owe is unknown."],
        ]
        ((name, told),) = await view.page.evaluate(SAID_OF, [None, some_known])
        assert name == "notice attention"
        assert told.startswith("Broker 3 owes the replicas of 1 deleted topic since ")
        assert told.endswith(". 1 znode of debts cannot be read: what else brokers owe is unknown.")
        assert await view.page.evaluate(SAID_OF, [{**trash, "unseen": None, "unreadable_count": 0}, None]) == [
            ["notice", "In the trash: 0 topics."]
        ]


async def test_columns_count_and_move_while_it_is_looked_at(scene: Scene) -> None:
    async with shown(scene) as page:
        assert await page.evaluate(COUNTS) == {
            "held": "12",
            "queued": "0",
            "started": "440",
            "acknowledged": "548",
            "removing": "0",
            "done": "40",
        }
        assert await page.evaluate("document.getElementById('total').textContent") == "1,000"
        assert await page.evaluate("document.querySelectorAll('.c-acknowledged .card').length") == 1
        assert "548 topics ← broker 3" in await page.evaluate(
            "document.querySelector('.c-acknowledged .card').innerText"
        )
        assert await page.evaluate("document.getElementById('connection').dataset.state") == "live"
        release(scene)
        await until(page, f"({COUNTS}).done === '828'")
        after = await page.evaluate(COUNTS)
        assert (after["started"], after["acknowledged"], after["held"]) == ("200", "0", "12")
        assert "4" in await page.evaluate("document.getElementById('broker-rows').innerText")


async def test_why_a_topic_waits_by_click_and_by_keyboard(scene: Scene) -> None:
    async with shown(scene) as page:
        await page.evaluate(OPEN_GROUP)
        await page.evaluate("document.querySelector('.c-started .card.waits:not(.group)').click()")
        await until(page, f"/not registered in ZooKeeper/.test({EXPLAINED})")
        await page.keyboard.press("Escape")
        await until(page, "!document.getElementById('explain').open")
        await page.evaluate("document.querySelector('.c-started .card.waits:not(.group)').focus()")
        stops = "[...document.querySelectorAll('.column')].map(c => c.querySelectorAll('.card[tabindex=\"0\"]').length)"
        assert await page.evaluate(stops) == [1, 0, 1, 1, 0, 1], "each column that has cards, what is done too"
        first = await page.evaluate(FOCUSED)
        await page.keyboard.press("ArrowDown")
        second = await page.evaluate(FOCUSED)
        assert first != second
        assert await page.evaluate("document.activeElement.matches(':focus-visible')")
        await page.keyboard.press("Enter")
        await until(page, f"{EXPLAINED} && /It waits for/i.test({EXPLAINED})")
        assert await page.evaluate("document.getElementById('explain-title').textContent") == second
        await page.keyboard.press("Escape")
        await until(page, f"({FOCUSED}) === {json.dumps(second)}")
        for key, phase in (("ArrowRight", "acknowledged"), ("ArrowRight", "done"), ("ArrowLeft", "acknowledged")):
            await page.keyboard.press(key)
            assert await page.evaluate("document.activeElement.dataset.phase") == phase
        for _ in range(9):
            await page.keyboard.press("Tab")
            if await page.evaluate("document.activeElement.dataset.phase") == "done":
                break
        assert await page.evaluate("document.activeElement.dataset.phase") == "done", "Tab leads to what is done"


async def test_an_explanation_that_is_not_answered_any_more_says_so(scene: Scene) -> None:
    hangs = "(_, { signal }) => new Promise((_, no) => signal.addEventListener('abort', () => no(signal.reason)))"
    async with shown(scene) as page:
        await page.evaluate(OPEN_GROUP)
        await page.evaluate("document.querySelector('.c-started .card.waits:not(.group)').click()")
        await until(page, f"/not registered in ZooKeeper/.test({EXPLAINED})")
        await page.evaluate(f"(() => {{ window.fetch = {hangs}; }})()")
        await until(page, f"/does not answer: stale, as of \\d/.test({EXPLAINED})")
        assert await page.evaluate(f"/not registered in ZooKeeper/.test({EXPLAINED})")


FOCUS_ONE_IN_WORK = """(() => {
  const card = document.querySelectorAll(".c-started .card:not(.waits):not(.group)")[3];
  if (!card) document.querySelector('.c-started .card.group:not(.waits)[aria-expanded="false"]')?.click();
  card?.focus();
  return document.activeElement === card;
})()"""
"""Topics whose broker takes long to answer are put into a group, which is opened."""


async def test_the_focus_follows_a_topic_that_moves_on(scene: Scene) -> None:
    async with shown(scene) as page:
        await until(page, FOCUS_ONE_IN_WORK)
        release(scene)
        await until(page, f"({COUNTS}).done === '828'")
        assert await page.evaluate("document.activeElement.classList.contains('card')")


async def test_filter_finds_what_is_not_shown_and_odd_names_are_text(scene: Scene) -> None:
    async with shown(scene) as page:
        for name in ODD:
            await page.evaluate(
                f"(() => {{ const f = document.getElementById('filter'); f.value = {json.dumps(name)};"
                " f.dispatchEvent(new Event('input')); })()"
            )
            topic = "document.querySelector('.c-started .card .topic')?.textContent"
            await until(page, f"{topic} === {json.dumps(name)} && document.querySelectorAll('.card').length === 1")
        assert await page.evaluate(WIDE) <= 0


async def test_what_others_have_written_is_text(scene: Scene) -> None:
    hostile = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    context = scene.app.loop.context
    async with shown(scene) as page:
        name = next(iter(context.cluster.marks))
        context.cluster.marks[name] = context.cluster.marks[name]._replace(last_error=hostile)
        await scene.create(1, 1)
        await page.evaluate("document.querySelector('.c-held .card.group').click()")
        await until(page, f"document.getElementById('board').textContent.includes({json.dumps(hostile)})")
        await page.evaluate(f"document.querySelector('.card[data-topic=\"{name}\"]').click()")
        await until(page, f"({EXPLAINED} || '').includes({json.dumps(hostile)})")
        assert await page.evaluate("document.querySelectorAll('img, main script').length") == 0
        assert "taken" not in await page.evaluate("document.title")


async def test_dark_light_and_narrow_fit_and_every_text_can_be_read(scene: Scene) -> None:
    lines = "[...document.querySelectorAll('footer a, .notice a')].map(a => getComputedStyle(a).textDecorationLine)"
    ground = "getComputedStyle(document.body).backgroundColor"
    async with open_browser() as browser:
        for width, height, dark in ((1440, 900, True), (1440, 900, False), (390, 844, False), (820, 1180, True)):
            async with shown(scene, width, height, dark, browser) as page:
                assert await page.evaluate(WIDE) <= 0
                assert (await page.evaluate(ground) == "rgb(16, 22, 28)") is dark
                await page.evaluate(OPEN_GROUP)
                if width == 1440:
                    await until(page, "document.getAnimations().every(each => each.playState === 'finished')")
                    assert await page.evaluate(CONTRASTS) == [], "enough contrast"
                    assert set(await page.evaluate(lines)) == {"underline"}, "links in text are underlined"
                await page.evaluate("document.getElementById('theme').click()")
                assert (await page.evaluate(ground) == "rgb(16, 22, 28)") is not dark
                await page.evaluate("document.querySelector('.c-started .card.waits:not(.group)').click()")
                await until(page, f"/It waits for/i.test({EXPLAINED})")
                assert await page.evaluate(WIDE) <= 0


async def test_motion_is_left_out_for_who_wants_none(scene: Scene) -> None:
    async with shown(scene) as page:
        await page.emulate_media(reduced_motion="reduce")
        release(scene)
        await until(page, f"({COUNTS}).done === '828'")
        names = "[...document.querySelectorAll('.came')].map(card => getComputedStyle(card).animationName)"
        assert set(await page.evaluate(names)) == {"none"}


async def test_a_lost_connection_is_said(scene: Scene) -> None:
    async with open_page(scene.url + "/board", width=1440, height=900) as view:
        page = view.page
        await page.add_init_script(WATCH_OTHERS)
        await page.reload()
        await until(page, "document.getElementById('connection').dataset.state === 'live'")
        await scene.write([Create(paths.instance(BrokerId(1002)), b'{"admin":"http://127.0.0.1:8"}')])
        await until(page, "window.seen.length === 1")
        scene.app.stop("SIGTERM")
        await reach(scene.task.done)
        await until(page, "document.getElementById('connection').dataset.state === 'lost'")
        said = await page.evaluate("document.getElementById('connection').innerText")
        assert "stale since" in said
        assert await page.evaluate("document.body.classList.contains('stale')")
        lost = await page.evaluate("document.getElementById('lost').innerText")
        assert "Controller 1001 does not answer" in lost
        assert "controller 1002 at http://127.0.0.1:8" in lost
        assert await page.evaluate("document.querySelector('#lost a').href") == "http://127.0.0.1:8/board"
        # The last that it was told may be that its controller had retired.
        role = await page.evaluate("window.role")
        assert await page.evaluate("document.getElementById('role').textContent") == f"was {role}"
        assert await page.evaluate("document.querySelectorAll('.leads').length") == 0, "no green word says active"


# --- token ----------------------------------------------------------------------------------------------------------

TOKEN = "0123456789abcdef" * 4
FORM = "!document.getElementById('token').hidden"
STORED = "sessionStorage.getItem('lethe-token')"
STATE = "document.getElementById('connection').dataset.state"


async def give(page: Page, token: str) -> None:
    await page.fill("#token-text", token)
    await page.keyboard.press("Enter")


async def test_a_page_without_the_token_asks_for_it_and_keeps_it_in_its_tab(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    http = HttpConfig("127.0.0.1", 0, token_file=tmp_path / "token")
    async with quiet_scene(http=http) as scene, open_page(scene.url + "/", width=390, height=844) as view:
        page = view.page
        (topic,) = await scene.create(1, 1, 4)
        await scene.settled(2)
        await scene.mark([topic])
        await until(page, FORM)
        assert await page.evaluate(STATE) == "locked"
        assert await page.evaluate("document.activeElement.id") == "token-text"
        assert await page.evaluate(WIDE) <= 0
        assert topic not in await page.content()
        await give(page, "f" * 64)
        await until(page, "/not accepted/.test(document.getElementById('token-said').textContent)")
        assert await page.evaluate(STORED) is None
        await give(page, TOKEN)
        await until(page, f"{STATE} === 'live' && ({COUNTS}).started === '1'")
        assert not await page.evaluate(FORM)
        await page.evaluate("document.querySelector('.c-started .card').click()")
        await until(page, f"/not registered in ZooKeeper/.test({EXPLAINED})")
        await page.keyboard.press("Escape")
        await page.fill("#filter", topic)
        await until(page, "/1 match, of 1/.test(document.getElementById('total').textContent)")
        # A token stands neither in the address nor in a cookie, and the tab keeps it when the page is loaded again.
        assert not [url for url in (page.url, *view.requests) if TOKEN in url]
        assert await page.context.cookies() == []
        await page.reload()
        await until(page, f"{STATE} === 'live' && ({COUNTS}).started === '1'")
        # Replaced at the server: the page asks for the new one.
        (tmp_path / "token").write_text("e" * 64)
        await until(page, f"{FORM} && {STATE} === 'locked'")
        await give(page, "e" * 64)
        await until(page, f"{STATE} === 'live'")
        assert [each for each in view.complaints if "401" not in each] == []
