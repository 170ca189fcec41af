// The board: takes in a snapshot and deltas (both of one form), keeps what they say, and shows it.
import { COLUMNS, age, brokerRow, clock, duration, fillCard, fillGroup, historyRow, keptNotices, make, nowMs, number, paceText, queueBody, rounded, setClock, some, termRow, tick } from "./parts.js";
import { openExplain } from "./explain.js";
import { ask, follow, whenGiven } from "./ask.js";

const SILENT_MS = 12000;
const AGAIN_MS = 5000;
const RETRY_MS = 2000;
const FILTER_AGAIN_MS = 2000;
const FILTER_LIMIT_MS = 5000;
const at = (id) => document.getElementById(id);
const model = { values: {}, lists: {} };
let found = null; // what the filter has found, in place of the columns
const announce = (text) => { at("announcer").textContent = text; };

// --- columns and their cards -------------------------------------------------------------------------------------------

const columns = new Map();
const flow = make("div", "flow");
flow.setAttribute("aria-hidden", "true");
at("board").before(flow);
for (const [phase, title, meaning] of COLUMNS) {
  const count = make("span", "value", "–");
  const heading = make("h3", null, make("i", `key k-${phase}`), title, count);
  heading.title = meaning;
  heading.id = `column-${phase}`;
  const cards = make("div", "cards");
  cards.setAttribute("role", "group");
  cards.setAttribute("aria-labelledby", heading.id);
  const more = make("p", "more");
  more.hidden = true;
  const section = make("section", `column c-${phase} empty`, heading, make("p", "meaning", meaning), cards, more);
  const segment = make("i", `segment k-${phase}`);
  if (phase !== "done") flow.append(segment);
  at("board").append(section);
  columns.set(phase, { count, cards, more, section, segment, nodes: new Map() });
}

// Topics that wait for the same are one card, which opens: "333 topics ← broker 3". Keys of groups have spaces in them,
// which names of topics never have, so both can be keys of one map.
const open = new Set();
const groups = () => (found ? {} : model.lists.groups?.rows ?? {});
const groupOf = (row) => (!found && row.group && groups()[row.group] ? row.group : null);

// What the column shows, from top to bottom: groups, their topics where they are open, and single topics.
function arranged(list) {
  const members = new Map();
  for (const topic of list.order) {
    const key = groupOf(list.rows[topic]);
    if (key) members.set(key, [...(members.get(key) ?? []), topic]);
  }
  const items = [];
  const begun = new Set();
  const single = (topic) => ({ key: topic, row: list.rows[topic], isGroup: false });
  for (const topic of list.order) {
    const key = groupOf(list.rows[topic]);
    if (!key) items.push(single(topic));
    else if (!begun.has(key)) {
      begun.add(key);
      items.push({ key, row: { ...groups()[key], isOpen: open.has(key), shown: members.get(key).length }, isGroup: true });
      if (open.has(key)) items.push(...members.get(key).map(single));
    }
  }
  return items;
}

function showColumn(phase, list, isMoving) {
  const column = columns.get(phase);
  const kept = new Map();
  const items = arranged(list);
  let place = column.cards.firstChild;
  for (const { key, row, isGroup } of items) {
    let card = column.nodes.get(key);
    if (!card) {
      card = make("button", isMoving ? "card came" : "card");
      card.type = "button";
      card.tabIndex = -1;
      card.dataset.topic = key;
      card.dataset.phase = phase;
    }
    if (isGroup ? JSON.stringify(card.shown) !== JSON.stringify(row) : card.shown !== row) {
      card.shown = row;
      if (isGroup) fillGroup(card, row);
      else fillCard(card, phase, row);
    }
    kept.set(key, card);
    if (card === place) place = place.nextSibling;
    else column.cards.insertBefore(card, place);
  }
  for (const [key, card] of column.nodes) if (kept.get(key) !== card) card.remove();
  column.nodes = kept;
  column.count.textContent = number(list.count);
  column.section.classList.toggle("empty", list.order.length === 0);
  if (column.cards.firstChild && !column.cards.querySelector('.card[tabindex="0"]')) column.cards.firstChild.tabIndex = 0;
  // Each topic without a group has a card; a group's row says how many it has.
  const told = items.filter((item) => item.isGroup || !groupOf(item.row)).reduce((sum, { row, isGroup }) => sum + (isGroup ? row.topics : 1), 0);
  column.more.hidden = list.count <= told || list.order.length === 0;
  column.more.textContent = phase === "done" ? `the latest of ${number(list.count)}` : `and ${number(list.count - told)} more: filter by name`;
}

function showColumns(changed, isMoving) {
  const focused = document.activeElement?.closest?.(".card");
  const index = focused ? [...focused.parentNode.children].indexOf(focused) : 0;
  const { topic, phase } = focused?.dataset ?? {};
  const lists = found?.lists ?? model.lists;
  for (const name of changed) if (columns.has(name) && lists[name]) showColumn(name, lists[name], isMoving);
  if (focused && document.activeElement !== focused) {
    // The card has moved on or gone: the focus follows it, or stays where it was.
    const again = [...columns.values()].map((column) => column.nodes.get(topic)).find(Boolean);
    const beside = columns.get(phase).cards.children;
    focusCard(again ?? beside[Math.min(index, beside.length - 1)] ?? document.querySelector(".card"), true);
  }
  let total = 0;
  for (const [name, column] of columns) {
    const count = model.lists[name]?.count ?? 0;
    if (name === "done") continue;
    total += count;
    column.segment.style.setProperty("flex-grow", count);
  }
  flow.classList.toggle("empty", total === 0);
  at("total").textContent = found ? `${number(matches())} match, of ${number(total)}` : number(total);
}

const matches = () => Object.values(found.lists).reduce((sum, list) => sum + list.count, 0);

// --- keyboard: each column is one stop of the tab key, and arrows move among all cards ---------------------------------

function focusCard(card, isQuiet) {
  if (!card) return;
  for (const other of card.parentNode.querySelectorAll('.card[tabindex="0"]')) other.tabIndex = -1;
  card.tabIndex = 0;
  card.focus({ preventScroll: Boolean(isQuiet) });
}

function beside(card, step) {
  const shown = [...columns.values()].filter((column) => column.cards.children.length);
  const here = shown.findIndex((column) => column.cards.contains(card));
  const row = [...card.parentNode.children].indexOf(card);
  const cards = shown[here + step]?.cards.children;
  return cards && cards[Math.min(row, cards.length - 1)];
}

at("board").addEventListener("keydown", (event) => {
  const card = event.target.closest(".card");
  if (!card || event.ctrlKey || event.metaKey || event.altKey) return;
  const next = {
    ArrowDown: () => card.nextElementSibling,
    ArrowUp: () => card.previousElementSibling,
    ArrowRight: () => beside(card, 1),
    ArrowLeft: () => beside(card, -1),
    Home: () => card.parentNode.firstElementChild,
    End: () => card.parentNode.lastElementChild,
  }[event.key];
  if (!next) return;
  event.preventDefault();
  focusCard(next());
});
at("board").addEventListener("focusin", (event) => {
  const card = event.target.closest(".card");
  if (card && card.tabIndex !== 0) focusCard(card, true);
});
at("board").addEventListener("click", (event) => {
  const card = event.target.closest(".card");
  if (!card) return;
  const key = card.dataset.topic;
  if (!card.classList.contains("group")) { openExplain(key, card.dataset.phase, card.shown); return; }
  if (!open.delete(key)) open.add(key);
  showColumns([card.dataset.phase], false);
});
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches?.("input") || at("explain").open;
  if (event.key === "/" && !isTyping) { event.preventDefault(); at("filter").focus(); }
});

// --- filter ------------------------------------------------------------------------------------------------------------

let filterTimer = 0;
async function filter() {
  clearTimeout(filterTimer);
  const wanted = at("filter").value.trim();
  if (!wanted) {
    if (found) { found = null; showColumns(columns.keys(), false); announce("filter removed"); }
    return;
  }
  try {
    const response = await ask(`/board/topics?search=${encodeURIComponent(wanted)}`, AbortSignal.timeout(FILTER_LIMIT_MS));
    if (response.ok && at("filter").value.trim() === wanted) {
      const isNew = found?.wanted !== wanted;
      found = { wanted, ...(await response.json()) };
      showColumns(columns.keys(), false);
      if (isNew) announce(some(matches(), "topic matches", "topics match"));
    }
  } catch { /* Who is asked has gone: the connection's state says so. */ }
  filterTimer = setTimeout(filter, FILTER_AGAIN_MS);
}
at("filter").addEventListener("input", () => { clearTimeout(filterTimer); filterTimer = setTimeout(filter, 200); });
at("filter").addEventListener("keydown", (event) => {
  if (event.key === "Escape") { at("filter").value = ""; filter(); }
  if (event.key === "ArrowDown") { event.preventDefault(); focusCard(document.querySelector(".card")); }
});

// --- the rest of the page ----------------------------------------------------------------------------------------------

let shownRole = null;
const isAddress = (url) => /^https?:\/\//.test(url ?? "");
const WINDOW_MS = 60000;
function showPace() {
  const { controller } = model.values;
  if (controller?.role !== "active" || !controller.ended || !model.lists.queued) { at("pace").textContent = ""; return; }
  const window = Math.min(WINDOW_MS, Math.max(1000, nowMs() - (controller.elected_ms ?? 0)));
  const perSecond = (count) => (count * 1000) / window;
  const { topics, partitions } = controller.ended;
  const count = (name) => model.lists[name]?.count ?? 0;
  // What waits for a broker's answer is in groups; what waits for more is counted by the controller.
  const asked = Object.values(model.lists.groups?.rows ?? {}).filter((row) => row.phase !== "held" && !row.waits).reduce((sum, row) => sum + row.topics, 0);
  const going = count("queued") + count("started") + count("acknowledged") + count("removing");
  const moving = Math.max(0, going - (controller.waiting ?? 0) - asked);
  let left = "unknown, since nothing has ended in the last minute";
  if (!going) left = "nothing is in deletion";
  else if (!moving) left = "unknown: all that is left waits";
  else if (controller.pauses?.length) left = "unknown, while deletions are paused";
  else if (topics) left = `about ${duration((moving / perSecond(topics)) * 1000)} for ${some(moving, "topic")}, without what waits`;
  const rate = topics ? `${rounded(perSecond(topics))} topics/s, ${rounded(perSecond(partitions))} partitions/s` : "0";
  at("pace").textContent = `Rate of the last minute: ${rate} · time left: ${left} · freed bytes: unknown to the controller`;
}

// What was known of other controllers when this one was last heard.
function showLost(isLost) {
  at("lost").hidden = !isLost;
  const controller = model.values.controller;
  showRole(controller, isLost);
  if (!isLost) { at("lost").replaceChildren(); return; }
  if (!controller) { at("lost").textContent = "This controller does not answer."; return; }
  const urls = new Map((controller.others ?? []).filter((other) => isAddress(other.url)).map((other) => [other.id, other.url]));
  if (isAddress(controller.active_url)) urls.set(controller.active_controller, controller.active_url);
  const links = [...urls].flatMap(([id, url]) => {
    const link = make("a", null, `controller ${id} at ${url}`);
    link.href = `${url}/board`;
    link.rel = "noreferrer";
    return [" ", link];
  });
  at("lost").replaceChildren(`Controller ${controller.id} does not answer: this page shows what it said last (it was ${controller.role}), and another controller may be active now. `,
    links.length ? "Other controllers that were known:" : "No other controller was known.", ...links);
}

function showRole(controller, isLost) {
  if (!controller) return;
  const role = at("role") ?? make("b");
  role.id = "role";
  role.textContent = isLost ? `was ${controller.role}` : controller.role;
  role.className = controller.role === "active" && !isLost ? "leads" : "";
  return role;
}

function showController(controller) {
  const role = showRole(controller, document.body.classList.contains("stale"));
  const pair = (name, ...value) => make("div", null, make("dt", null, name), make("dd", null, ...value));
  const about = [pair("controller", String(controller.id)), pair("role", role), pair("cluster", controller.cluster_id ?? "unknown")];
  if (controller.leads) about.push(pair("epoch", String(controller.epoch)), pair("elected", age(controller.elected_ms), " ago"), pair("topics", number(controller.topics)));
  at("about").replaceChildren(...about);
  at("title").textContent = `Controller ${controller.id}`;
  document.title = `Lethe · controller ${controller.id}`;
  const notices = [];
  if (!controller.leads && controller.active_controller >= 0 && controller.active_controller !== controller.id) {
    const notice = make("p", "notice standby", `This controller is ${controller.role}. Controller ${controller.active_controller} leads: `);
    if (isAddress(controller.active_url)) {
      const link = make("a", null, `its board at ${controller.active_url}`);
      link.href = `${controller.active_url}/board`;
      link.rel = "noreferrer";
      notice.append(link);
    } else notice.append("it says no address of a board (Kafka's own controller has none).");
    notices.push(notice);
  } else if (!controller.leads) notices.push(make("p", "notice attention", `This controller is ${controller.role}, and no active controller is known.`));
  if (controller.leads && controller.role !== "active") notices.push(make("p", "notice attention", "This controller is taking over and has not read everything yet: what is missing below is unseen."));
  if (controller.zookeeper) notices.push(make("p", "notice bad", `No ZooKeeper session: ${controller.zookeeper}`));
  if (controller.refusal) notices.push(make("p", "notice bad", controller.refusal));
  if (controller.power) notices.push(make("p", "notice bad", `Not every broker obeys: ${controller.power}`));
  for (const owing of controller.owed ?? []) {
    const count = `${owing.topics} topic${owing.topics === 1 ? "" : "s"}`;
    notices.push(make("p", "notice attention", `Broker ${owing.broker} has not confirmed since ${clock(owing.since_ms)} that its metadata cache has dropped ${count}, which are gone otherwise.`));
  }
  for (const pause of controller.pauses ?? []) {
    const why = pause.reason ? ` (${pause.reason})` : "";
    notices.push(make("p", "notice attention", "Every marked topic ", pause.meaning, `, since ${clock(pause.since_ms)}`, why, ". What helps: ", pause.unblock, "."));
  }
  if (controller.leads && !controller.delete_topic_enable) notices.push(make("p", "notice attention", "delete.topic.enable is false: markers are removed, topics stay."));
  notices.push(...keptNotices(controller));
  if (controller.pace) notices.push(make("p", "notice", paceText(controller.pace)));
  const before = at("notices").textContent;
  at("notices").replaceChildren(...notices);
  const isNew = shownRole !== null && shownRole !== controller.role;
  shownRole = controller.role;
  const said = isNew ? `This controller is ${controller.role}${controller.leads ? `, epoch ${controller.epoch}` : ""}. ` : "";
  if (before !== at("notices").textContent || isNew) announce(said + at("notices").textContent);
  at("waiting").textContent = controller.waiting ? `${number(controller.waiting)} ${controller.waiting === 1 ? "waits" : "wait"} for something that is not there` : "";
  at("deletions").hidden = at("brokers").hidden = !controller.leads;
}

function showBrokers(list) {
  at("broker-rows").replaceChildren(...list.order.map((id) => brokerRow(id, list.rows[id])));
  const rows = Object.values(list.rows);
  const bad = rows.filter((row) => ["unreachable", "unreadable", "not registered"].includes(row.status)).length;
  at("brokers-tally").textContent = bad ? `${number(bad)} of ${number(list.count)} cannot be asked` : number(list.count);
  at("brokers-tally").classList.toggle("loud", bad > 0);
  at("brokers-calm").hidden = rows.length > 0 && list.count === rows.length;
  at("brokers-calm").textContent = rows.length ? `${number(list.count - rows.length)} more are not shown.` : "No broker is known.";
}

function show(changed, isMoving) {
  if (changed.values?.controller) showController(model.values.controller);
  if (changed.values?.queue) {
    const queue = model.values.queue;
    at("queue-tally").textContent = queue.waiting ? `${number(queue.waiting)} wait, the oldest ${duration(queue.oldest_s * 1000)}` : "";
    at("queue-body").replaceChildren(...queueBody(queue));
  }
  let lists = Object.keys(changed.lists ?? {});
  if (lists.includes("groups")) lists = [...new Set([...lists, ...columns.keys()])].filter((name) => model.lists[name]);
  showPace();
  if (!found && lists.some((name) => columns.has(name))) showColumns(lists, isMoving);
  if (lists.includes("brokers")) showBrokers(model.lists.brokers);
  const rowsOf = (name) => model.lists[name].order.map((key) => model.lists[name].rows[key]);
  if (lists.includes("terms")) at("term-rows").replaceChildren(...rowsOf("terms").map((row) => termRow(row, model.values.controller?.id)));
  if (lists.includes("history")) {
    at("history-rows").replaceChildren(...rowsOf("history").map(historyRow));
    at("history-calm").hidden = model.lists.history.count > 0;
  }
}

function take(said, isWhole) {
  setClock(said.at_ms);
  if (isWhole) { model.values = {}; model.lists = {}; }
  Object.assign(model.values, said.values);
  for (const [name, change] of Object.entries(said.lists ?? {})) {
    const list = model.lists[name] ?? { count: 0, order: [], rows: {} };
    const rows = { ...list.rows, ...change.rows };
    const order = change.order ?? list.order;
    model.lists[name] = { count: change.count ?? list.count, order, rows: Object.fromEntries(order.map((key) => [key, rows[key]])) };
  }
  show(said, !isWhole);
}

// --- connection --------------------------------------------------------------------------------------------------------

let stream = null, heardAt = 0, again = 0;
function state(name, text) {
  const node = at("connection");
  const before = node.dataset.state;
  node.dataset.state = name;
  node.lastElementChild.textContent = text;
  document.body.classList.toggle("stale", name !== "live");
  showLost(name === "lost");
  if (before !== name && !(before === "connecting" && name === "live")) announce(name === "live" ? "connected again" : text);
}
const staleText = (why) => (heardAt ? `${why}; stale since ${clock(heardAt + (nowMs() - Date.now()))}` : why);
function heard() { heardAt = Date.now(); state("live", "live"); }
function later(ms) { clearTimeout(again); again = setTimeout(connect, ms); }

function leave(why, ms) {
  stream.close();
  state("lost", staleText(why));
  if (ms) later(ms);
}

const hears = {
  snapshot(said) { heard(); take(said, true); },
  delta(said) { heard(); take(said, false); },
  beat(said) { heard(); setClock(said.at_ms); },
  closing(said) { leave(said.why, AGAIN_MS); },
  refused(said) { leave(said.why, 15000); },
  dropped(said) {
    leave(said.why);
    const reload = make("button", "reload", "load it again");
    reload.type = "button";
    reload.addEventListener("click", () => location.reload());
    at("notices").prepend(make("p", "notice bad", "This page was disconnected because it could not keep up: ", reload));
  },
};

function ended(status) {
  if (status === 401) { state("locked", staleText("a token is needed")); return; }
  state("lost", staleText(status ? `the controller answered ${status}` : "connection lost"));
  later(status ? AGAIN_MS : RETRY_MS);
}

function connect() {
  stream?.close();
  clearTimeout(again);
  stream = follow("/board/events", (name, said) => hears[name]?.(said), ended);
}
whenGiven(connect);
setInterval(() => {
  if (document.body.classList.contains("stale")) return;
  tick();
  showPace();
  if (Date.now() - heardAt > SILENT_MS) { state("lost", staleText("nothing is heard")); later(0); }
}, 1000);

connect();
addEventListener("pagehide", () => stream?.close());
addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
