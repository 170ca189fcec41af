// Why one topic is not gone yet: asks /explain/TOPIC, and again while the answer is looked at.
import { age, brief, clock, duration, make, nowMs, number, some } from "./parts.js";
import { ask as request } from "./ask.js";

const ROWS_SHOWN = 200;
const AGAIN_MS = 2000;
const LIMIT_MS = 5000;
const dialog = document.getElementById("explain");
const body = document.getElementById("explain-body");
const title = document.getElementById("explain-title");
let asked = null;
let timer = 0;

export function openExplain(topic, phase, row) {
  asked = { topic, phase, row, told: null };
  title.textContent = topic;
  body.replaceChildren(make("p", "calm", "asking …"));
  if (!dialog.open) dialog.showModal();
  ask();
}

async function ask() {
  clearTimeout(timer);
  const mine = asked;
  let content;
  try {
    const limit = AbortSignal.timeout(LIMIT_MS);
    const response = await request(`/explain/${encodeURIComponent(mine.topic)}`, limit);
    const said = await response.json();
    if (asked !== mine) return;
    content = response.ok ? explanation(said.topics[0]) : unexplained(response.status, said);
    mine.told = { content, at: nowMs() };
  } catch {
    content = unanswered(mine.told);
  }
  if (!dialog.open || asked !== mine) return;
  const top = body.scrollTop;
  body.replaceChildren(...content);
  body.scrollTop = top;
  timer = setTimeout(ask, AGAIN_MS);
}

// What was true a while ago is still worth reading, but not as what is true now.
function unanswered(told) {
  if (told === null) return [make("p", "lead", "The controller did not answer. It is asked again while this is open.")];
  return [make("p", "lead", `The controller does not answer: stale, as of ${clock(told.at)}.`), ...told.content];
}

function unexplained(status, said) {
  const { phase, row } = asked;
  if (status === 401) return [make("p", "lead", "A token is needed: close this, and give it at the top of the page.")];
  if (status !== 404) return [make("p", "lead", said.error ?? `The controller answered ${status}.`)];
  if (phase === "done") {
    const took = brief(row.phase_ms - row.since_ms);
    return [
      make("p", "lead", `It was deleted at ${clock(row.phase_ms)}, after ${took}: ${some(row.partitions, "partition")}, ${some(row.replicas, "replica")}.`),
      said.exists ? make("p", "lead", "A topic of that name exists again.") : make("p", "calm", "There is no such topic any more. Brokers remove its bytes when their delay is over."),
    ];
  }
  const refused = said.refused ? `Its marker was removed at ${clock(said.refused.at_ms)}: ${said.refused.why}.` : "";
  return [make("p", "lead", `It is not marked for deletion${said.exists ? "" : ", and there is no such topic"}. ${refused}`)];
}

function explanation(topic) {
  const since = make("p", "lead", "Marked for deletion ", topic.marked_since_ms ? age(topic.marked_since_ms) : "some time", " ago; ");
  since.append(make("b", null, topic.phase), topic.held_by ? ` (${topic.held_by.toLowerCase().replaceAll("_", " ")})` : "", ".");
  const parts = [since];
  if (topic.causes.length) {
    parts.push(make("h3", null, "It waits for"), make("ol", "causes", ...topic.causes.map(cause)));
  } else {
    parts.push(make("p", "calm", "Nothing is in its way."));
  }
  if (topic.replicas.some((replica) => replica.broker !== null)) parts.push(...replicas(topic));
  return parts;
}

function cause(row) {
  const where = [row.broker === null ? null : `broker ${row.broker}`, row.partitions === null ? null : `partitions ${row.partitions}`];
  const facts = [
    row.since_ms ? `since ${clock(row.since_ms)} (${duration(nowMs() - row.since_ms)})` : null,
    row.attempts > 1 ? `${number(row.attempts)} attempts` : null,
    row.next_try_ms ? `next try ${clock(row.next_try_ms)}` : null,
  ];
  const item = make("li", null, make("p", "meaning", make("b", null, where.filter(Boolean).join(", ")), where.some(Boolean) ? ": " : "", row.meaning));
  item.append(make("p", "facts", facts.filter(Boolean).join(" · ")));
  if (row.last_error) item.append(make("p", "error", row.last_error));
  if (row.unblock) item.append(make("p", "unblock", make("span", null, "what helps "), row.unblock));
  return item;
}

function replicas(topic) {
  const rows = topic.replicas.slice(0, ROWS_SHOWN).map((row) => make(
    "tr", null,
    make("td", null, row.partition ?? "–"), make("td", null, row.broker ?? "–"),
    make("td", null, (row.state ?? "metadata cache").toLowerCase().replaceAll("_", " ")),
    make("td", null, row.waiting_for.toLowerCase().replaceAll("_", " ")),
  ));
  const head = make("tr", null, ...["partition", "broker", "state", "waits for"].map((name) => make("th", null, name)));
  const found = [
    make("h3", null, "Replicas"),
    make("div", "scroll", make("table", null, make("thead", null, head), make("tbody", null, ...rows))),
  ];
  const left = topic.replicas.length - rows.length + topic.replicas_not_shown;
  if (left > 0) found.push(make("p", "left-out", `${some(left, "replica is", "replicas are")} not shown.`));
  return found;
}

document.getElementById("explain-close").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
dialog.addEventListener("close", () => { clearTimeout(timer); asked = null; });
