// What the page is made of. Whatever others have written (topics, reasons, errors) is set as text, never as markup.

export const COLUMNS = [
  ["held", "held", "marked, and held back: nothing of it is deleted"],
  ["queued", "queued", "nothing has been sent for it yet"],
  ["started", "started", "out of service; brokers are asked for its replicas"],
  ["acknowledged", "acknowledged", "every replica is deleted; a metadata cache still shows it"],
  ["removing", "removing", "its znodes are being removed"],
  ["done", "done recently", "nothing is left in ZooKeeper"],
];

export function make(tag, name, ...content) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  for (const part of content) if (part !== null && part !== undefined) node.append(part);
  return node;
}

// --- numbers and times ---------------------------------------------------------------------------------------------

let clockAhead = 0;
export const setClock = (atMs) => { clockAhead = atMs - Date.now(); };
export const nowMs = () => Date.now() + clockAhead;

const plain = new Intl.NumberFormat("en");
export const number = (value) => plain.format(value ?? 0);
export const some = (count, one, many) => `${number(count)} ${count === 1 ? one : many ?? one + "s"}`;

export function duration(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, "0")} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export const brief = (ms) => (ms < 100 ? "under 0.1 s" : ms < 10000 ? `${(ms / 1000).toFixed(1)} s` : duration(ms));

export function clock(ms) {
  const at = new Date(ms);
  const time = at.toTimeString().slice(0, 8);
  return Math.abs(nowMs() - ms) < 43200000 ? time : `${at.toISOString().slice(0, 10)} ${time}`;
}

export function bytes(value) {
  if (!value) return "–";
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (value >= 1024 && unit < 3) { value /= 1024; unit += 1; }
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

// The limits on deletions that begin, and what waits for its turn.
export function paceText(pace) {
  const limits = [];
  if (pace.topics_per_second) limits.push(some(pace.topics_per_second, "topic"));
  if (pace.bytes_per_second) limits.push(bytes(pace.bytes_per_second));
  const size = pace.waiting_bytes ? ` with ${bytes(pace.waiting_bytes)}` : "";
  const unknown = pace.unknown_sizes ? `, the sizes of ${number(pace.unknown_sizes)} are unknown` : "";
  const left = pace.time_left_ms === null ? "when the last one begins is unknown" : `the last one begins in ${duration(pace.time_left_ms)}`;
  const waiting = pace.waiting ? `${some(pace.waiting, "topic")}${size} held until ${pace.waiting === 1 ? "its" : "their"} turn comes${unknown}; ${left}` : "none waits for its turn";
  return `Deletions begin at ${limits.join(" and ")} a second at most: ${waiting}.`;
}

// What is in the trash, and why it may leave it early.
function trashText(trash) {
  const { counts, giving_way: giving } = trash;
  const others = ["freezing", "restoring", "offsets"].filter((phase) => counts[phase]).map((phase) => `${number(counts[phase])} ${phase}`);
  const due = trash.oldest_due_ms === null ? "" : `, the first is deleted at ${clock(trash.oldest_due_ms)}`;
  const size = trash.size_bytes ? ` with ${bytes(trash.size_bytes)}` : "";
  if (trash.unseen) return `Which topics are in the trash is unknown: ${trash.unseen}.`;
  const parts = [`In the trash: ${some(counts.trashed, "topic")}${size}${due}${others.length ? `; ${others.join(", ")}` : ""}.`];
  if (trash.unreadable_count) parts.push(`${some(trash.unreadable_count, "entry", "entries")} cannot be read.`);
  if (giving) parts.push(`${giving.topic} has given way to ${giving.path} of broker ${giving.broker}; its bytes are waited for.`);
  else if (trash.full_disk_count) parts.push(`${some(trash.full_disk_count, "log directory", "log directories")} with less than ${trash.free_percent} % free: the oldest topic there gives way.`);
  if (trash.free_percent && trash.unseen_disk_count) parts.push(`${some(trash.unseen_disk_count, "broker")} not seen: nothing gives way there.`);
  return parts.join(" ");
}

// What absent brokers still have.
function debtsText(debts) {
  const unread = debts.unreadable_count ? `${some(debts.unreadable_count, "znode")} of debts cannot be read: what ${debts.open ? "else " : ""}brokers owe is unknown.` : "";
  if (!debts.open) return unread;
  const size = debts.size_bytes ? ` (${bytes(debts.size_bytes)})` : "";
  const open = `${debts.brokers.length === 1 ? "Broker" : "Brokers"} ${debts.brokers.slice(0, 8).join(", ")}${debts.brokers.length > 8 ? " and others" : ""} ${debts.brokers.length === 1 ? "owes" : "owe"} the replicas of ${some(debts.open, "deleted topic")}${size} since ${clock(debts.since_ms)}.`;
  return unread ? `${open} ${unread}` : open;
}

export function keptNotices({ trash, debts }) {
  const notices = [];
  if (trash) notices.push(make("p", trash.full_disk_count || trash.unreadable_count || trash.unseen ? "notice attention" : "notice", trashText(trash)));
  if (debts) notices.push(make("p", debts.unreadable_count ? "notice attention" : "notice", debtsText(debts)));
  return notices;
}

// A time that goes on; `tick` keeps it up to date.
export function age(sinceMs) {
  const node = make("time", "age", duration(nowMs() - sinceMs));
  node.dataset.since = sinceMs;
  node.title = `since ${clock(sinceMs)}`;
  return node;
}

export function tick() {
  for (const node of document.querySelectorAll("[data-since]")) {
    const text = duration(nowMs() - Number(node.dataset.since));
    if (node.textContent !== text) node.textContent = text;
  }
}

// --- topics ----------------------------------------------------------------------------------------------------------

export function fillCard(card, phase, row) {
  const isDone = phase === "done";
  const size = !row.replicas ? "size unknown" : isDone || row.done === undefined
    ? some(row.replicas, "replica")
    : `${number(row.done)} of ${some(row.replicas, "replica")}`;
  const time = isDone ? make("span", "age", `took ${brief(row.phase_ms - row.since_ms)}`) : age(row.since_ms);
  if (isDone) time.title = `done ${clock(row.phase_ms)}`;
  const share = row.replicas ? (isDone ? 1 : (row.done ?? 0) / row.replicas) : 0;
  const name = make("span", "topic", card.dataset.topic);
  name.title = card.dataset.topic;
  const parts = [name, make("span", "meta", make("span", "size", size), time)];
  if (row.note || row.waits) parts.push(make("span", row.waits ? "note" : "note soft", row.note || "waits"));
  const bar = make("i", "share");
  bar.style.setProperty("--share", share);
  if (share > 0 && share < 1) parts.push(bar);
  card.replaceChildren(...parts);
  card.classList.toggle("waits", Boolean(row.waits));
}

// Topics that wait for the same cause and broker; `row.shown` of them have a card of their own.
export function fillGroup(card, row) {
  const many = `${row.at_least ? "at least " : ""}${some(row.topics, "topic")}`;
  const name = make("span", "topic", make("b", null, row.isOpen ? "▾ " : "▸ "), row.broker === null ? many : `${many} ← broker ${row.broker}`);
  const size = row.isOpen && row.topics > row.shown ? `the first ${number(row.shown)} follow` : row.replicas ? some(row.replicas, "replica") : "size unknown";
  card.replaceChildren(name, make("span", "meta", make("span", "size", size), age(row.since_ms)), make("span", row.waits ? "note" : "note soft", row.note));
  card.classList.add("group");
  card.classList.toggle("waits", row.waits);
  card.setAttribute("aria-expanded", String(row.isOpen));
}

export const rounded = (value) => (value >= 10 ? number(Math.round(value)) : value.toFixed(value >= 0.1 ? 1 : 2));

// --- brokers, terms, queue, history --------------------------------------------------------------------------------

const LEVELS = { registered: "quiet", "shutting down": "attention", unreachable: "bad", unreadable: "bad", "not registered": "bad" };

export function brokerRow(id, row) {
  const label = make("span", `label ${LEVELS[row.status] ?? "quiet"}`, row.status);
  const status = make("td", null, label);
  if (row.status === "not registered" && row.gone_ms !== null) status.append(" ", age(row.gone_ms));
  if (row.problem) { status.append(make("span", "why", row.problem)); }
  if (row.failed_dirs) status.append(make("span", "why", "a log directory has failed"));
  const name = make("th", null, id);
  name.scope = "row";
  const cell = (text, zero) => make("td", zero ? "number none" : "number", text);
  return make(
    "tr", null, name, status,
    cell(number(row.replicas), !row.replicas), cell(number(row.requests), !row.requests),
    cell(bytes(row.bytes), !row.bytes), cell(row.oldest_s ? duration(row.oldest_s * 1000) : "–", !row.oldest_s),
  );
}

export function termRow(row, myId) {
  const who = make("span", "who", `controller ${row.controller}${row.controller === myId ? " (this one)" : ""}`);
  const until = row.until_ms === null ? age(row.since_ms) : make("span", "age", duration(row.until_ms - row.since_ms));
  const facts = [row.epoch === null ? null : `epoch ${row.epoch}`, `from ${clock(row.since_ms)}`];
  if (row.active_ms !== null) facts.push(`loaded in ${brief(row.active_ms - row.since_ms)}`);
  if (row.reason) facts.push(row.reason);
  const item = make("li", row.until_ms === null ? "now" : null, who, until);
  item.append(make("span", "why", facts.filter(Boolean).join(" · ")));
  return item;
}

export function historyRow(row) {
  const item = make("li", `kind-${row.kind.replace(/[^a-z]/g, "-")}`);
  const at = make("time", "at", clock(row.at_ms));
  const [, sort, name] = row.subject.match(/^(topic|broker|controller)\/(.*)$/s) ?? [null, "topic", row.subject];
  const subject = sort === "topic" ? name : `${sort} ${name}`;
  const text = row.count > 1
    ? make("span", "said", make("b", null, `${number(row.count)} × ${row.what}`), ` · last ${subject}`)
    : make("span", "said", make("b", null, subject), ` ${row.what}`);
  if (row.why) text.append(make("span", "why", row.why));
  item.append(at, text);
  return item;
}

export function queueBody(queue) {
  const rows = Object.entries(queue.by_event).map(([name, count]) =>
    make("li", null, make("span", null, name), make("span", "number", number(count))));
  const parts = [];
  if (queue.in_progress) {
    parts.push(make("p", "working", "handling ", make("b", null, queue.in_progress), ` for ${queue.in_progress_s} s`));
  }
  if (rows.length) parts.push(make("ol", "events", ...rows));
  if (!parts.length) parts.push(make("p", "calm", "Nothing waits."));
  return parts;
}

