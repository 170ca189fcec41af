// All deletions, from the page's data: a table in pages, with filters, and what is known of each. `deletion_data.py`
// makes the data. Without this script the page has the table's first rows.
(async function () {
  "use strict";
  const { make, pair } = window.lethe;
  const source = document.getElementById("deletion-data");
  if (!source || !window.DecompressionStream) return;

  const bytes = Uint8Array.from(atob(source.textContent), (each) => each.charCodeAt(0));
  const json = new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")));
  const data = await json.json();
  source.remove();

  const PER_PAGE = 50;
  const table = document.querySelector("table.timelines");
  const body = table.tBodies[0];
  const heads = Array.from(table.tHead.rows[0].cells);
  const SVG = table.tHead.querySelector("svg").namespaceURI;
  const names = data.topic.map((each) => each.toLowerCase());
  const marked = data.at.map((at, row) => {
    const after = data.times.marked ? data.times.marked[row] : null;
    return after === null ? null : at + after;
  });

  // --- numbers as text, as formatting.py has them ---

  const NONE = "–";
  const number = (value) => (value === null ? NONE : String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f"));
  const count = (value, one, many) => number(value) + " " + (value === 1 ? one : many || one + "s");
  const duration = (ms) => {
    if (ms === null) return NONE;
    if (ms < 1000) return ms + "\u00a0ms";
    if (ms < 9995) return (ms / 1000).toFixed(2) + "\u00a0s";
    if (ms < 99950) return (ms / 1000).toFixed(1) + "\u00a0s";
    const seconds = Math.round(ms / 1000);
    const units = [[86400, 3600, "d", "h"], [3600, 60, "h", "min"], [60, 1, "min", "s"]];
    const [big, part, unit, smaller] = units.find((each) => seconds >= each[0]);
    const rest = Math.floor((seconds % big) / part);
    return Math.floor(seconds / big) + "\u00a0" + unit + (rest ? "\u00a0" + rest + "\u00a0" + smaller : "");
  };
  const size = (value) => {
    if (value === null) return NONE;
    let unit = 0;
    for (; Math.abs(value) >= 999.5 && unit < 6; unit++) value /= 1000;
    const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    return value.toFixed(digits) + "\u00a0" + ["B", "kB", "MB", "GB", "TB", "PB", "EB"][unit];
  };
  window.lethe.formats = { duration, size, number };

  // --- one row ---

  const svg = (tag, attributes) => {
    const node = document.createElementNS(SVG, tag);
    Object.entries(attributes).forEach(([name, value]) => node.setAttribute(name, value));
    return node;
  };
  const phases = (row) =>
    Object.entries(data.times)
      .map(([name, column]) => [name, column[row]])
      .filter(([, ms]) => ms !== null);
  const bar = (row) => {
    const picture = svg("svg", { class: "row", role: "img", width: "100%", height: 20 });
    const title = svg("title", {});
    const words = phases(row).map(([name, ms]) => name + " after " + duration(ms));
    title.textContent = words.join("; ") || "no time is known";
    picture.append(title, svg("use", { href: "#rows-behind", width: "100%", height: "100%" }));
    const parts = data.bar[row];
    for (let at = 0; at < parts.length; at += 3) {
      const [name, y, height] = data.classes[parts[at]];
      const [x, width] = [parts[at + 1] / 10 + "%", parts[at + 2] / 10 + "%"];
      picture.append(svg("rect", { class: name, x, width, y, height }));
    }
    return picture;
  };
  const badge = (row) => {
    const [name, colour] = data.outcomeNames[data.outcome[row]];
    return make("span", "label " + colour, name);
  };
  const cell = (index, text) => {
    const head = heads[index];
    const node = make("td", head.className);
    if (!head.classList.contains("plot")) node.dataset.label = labels[index];
    node.append(text === NONE ? make("span", "none", NONE) : text);
    return node;
  };
  const COLUMNS = [
    { sort: data.topic },
    { sort: data.at, show: bar },
    { sort: data.deleted, show: (row) => duration(data.deleted[row]) },
    { sort: data.reclaimed, show: (row) => duration(data.reclaimed[row]) },
    { sort: data.waited, show: (row) => duration(data.waited[row]) },
    { sort: data.replicas, show: (row) => number(data.replicas[row]) },
    { sort: data.bytes, show: (row) => size(data.bytes[row]) },
    { sort: data.outcome.map((each) => data.outcomeNames[each][0]), show: badge },
  ];
  const labels = heads.map((head) => (head.querySelector("svg") ? "Begin" : head.textContent));
  const draw = (row) => {
    const line = make("tr");
    const name = make("th", "name");
    const open = make("button", "", data.topic[row]);
    name.scope = "row";
    open.type = "button";
    open.title = data.topic[row];
    open.setAttribute("aria-expanded", "false");
    open.addEventListener("click", () => {
      const isOpen = open.getAttribute("aria-expanded") === "true";
      open.setAttribute("aria-expanded", String(!isOpen));
      if (isOpen) line.nextSibling.remove();
      else line.after(about(row));
    });
    name.append(open);
    line.append(name, ...COLUMNS.slice(1).map((column, index) => cell(index + 1, column.show(row))));
    return line;
  };

  // --- what is known of one deletion ---

  const small = (caption, columns, rows) => {
    const made = make("table", "compact");
    const head = made.createTHead().insertRow();
    made.createCaption().textContent = caption;
    const add = (line, tag, scope, text, index) => {
      const node = make(tag, index ? "number" : "name", text);
      if (scope) node.scope = scope;
      line.append(node);
    };
    columns.forEach((name, index) => add(head, "th", "col", name, index));
    const inside = made.createTBody();
    rows.forEach((values) => {
      const line = inside.insertRow();
      values.forEach((text, index) => add(line, index ? "td" : "th", index ? "" : "row", text, index));
    });
    return made;
  };
  const times = (row) => {
    const known = phases(row).sort((one, other) => one[1] - other[1]);
    const words = (ms) => new Date(data.at[row] + ms).toISOString().slice(0, -1).split("T");
    const [first] = words(known[0][1]);
    const lines = known.map(([name, ms], index) => {
      const [day, clock] = words(ms);
      const step = index ? duration(ms - known[index - 1][1]) : NONE;
      return [name, day === first ? clock : day + " " + clock, duration(ms), step];
    });
    return small("Phases, from " + first + " (UTC)", ["Phase", "At", "After", "Step"], lines);
  };
  const brokers = (row) => {
    const lines = data.brokers[row].map(([broker, replicas, acked, after, attempts, refused, refusal]) => [
      broker === null ? "unknown" : String(broker),
      number(acked) + " of " + number(replicas),
      duration(after),
      number(attempts),
      refused ? number(refused) + (refusal === null ? "" : ", " + data.refusals[refusal]) : "0",
    ]);
    if (data.moreBrokers[row]) lines.push(["and " + number(data.moreBrokers[row]) + " more", "", "", "", ""]);
    return small("Replicas acknowledged, by broker", ["Broker", "Replicas", "Last after", "Asked", "Refused"], lines);
  };
  const facts = (row) => {
    const [acked, bytes] = [data.acked[row], data.bytes[row]];
    const list = make("dl", "facts");
    const add = (name, text) => {
      if (!text) return;
      const fact = make("div");
      fact.append(make("dt", "", name), make("dd", "", text));
      list.append(fact);
    };
    add("Topic id", data.id[row]);
    add("Deletion", data.span[row] > 1 ? "number " + data.span[row] + " of this topic" : "");
    add("Partitions", data.partitions[row] === null ? "" : number(data.partitions[row]));
    add("Acknowledged", acked === null ? "" : number(acked) + " of " + count(data.replicas[row], "replica"));
    const directories = count(data.directories[row], "directory", "directories");
    add("Freed", bytes === null ? "" : size(bytes) + " in " + directories);
    add("Held", data.held[row].join("; "));
    add("Waited for", data.waits[row].join("; "));
    add("Owed", data.owed[row]);
    add("Controllers", data.controllers[row].join(", "));
    return list;
  };
  const lines = (row) => {
    const known = phases(row).map(([, ms]) => data.at[row] + ms);
    const quoted = "'" + data.topic[row].replaceAll("'", "'\"'\"'") + "'";
    const day = (ms) => new Date(ms).toISOString().slice(0, 10);
    const isOpen = data.outcomeNames[data.outcome[row]][0] === "open";
    let text = data.command + " --topic=" + quoted;
    if (known.length) text += " --from " + day(Math.min(...known));
    if (known.length && !isOpen) text += " --to " + day(Math.max(...known));
    return pair(make("code", "command", text));
  };
  const about = (row) => {
    const line = make("tr", "about-one");
    const node = line.insertCell();
    node.colSpan = heads.length;
    const tables = make("div", "side-by-side");
    if (phases(row).length) tables.append(times(row));
    if (data.brokers[row].length) tables.append(brokers(row));
    node.append(tables, facts(row), make("p", "what", "Its lines of the journal:"), lines(row));
    return line;
  };

  // --- filters, order, pages ---

  const labelled = (words, control) => {
    const node = make("label", "", words);
    node.append(control);
    return node;
  };
  const choice = (names) => {
    const made = make("select");
    names.forEach((name, index) => made.append(new Option(name, index ? index - 1 : "")));
    return made;
  };
  const input = (type) => {
    const made = make("input");
    made.type = type;
    return made;
  };
  const topic = input("search");
  topic.placeholder = "part of the name";
  const outcome = choice(["any", ...data.outcomeNames.map((each) => each[0])]);
  const cause = choice(["any", ...data.causeNames]);
  const from = input("datetime-local");
  const to = input("datetime-local");
  const order = choice(["open, then longest", ...labels]);
  const bars = make("form", "filters");
  bars.setAttribute("aria-label", "Choose deletions");
  bars.append(labelled("Topic", topic), labelled("Outcome", outcome));
  if (data.causeNames.length) bars.append(labelled("Cause", cause));
  bars.append(labelled("Marked from (UTC)", from), labelled("to", to), labelled("Order", order));
  bars.addEventListener("submit", (event) => event.preventDefault());
  const before = make("button", "", "Previous");
  const after = make("button", "", "Next");
  const status = make("span", "status");
  status.setAttribute("role", "status");
  before.type = after.type = "button";
  const pager = make("nav", "pager");
  pager.setAttribute("aria-label", "Pages of deletions");
  pager.append(before, status, after);

  const collator = new Intl.Collator("en", { numeric: true });
  const everything = data.topic.map((_, row) => row);
  let sorting = null; // Column and direction, or null for the order of the data.
  let found = everything;
  let first = 0;

  const sorted = (rows) => {
    if (!sorting) return rows;
    const values = COLUMNS[sorting.column].sort;
    const isText = typeof values.find((each) => each !== null) === "string";
    const compare = isText ? collator.compare : (one, other) => one - other;
    return rows.slice().sort((a, b) => {
      const [one, other] = [values[a], values[b]];
      if (one === null || other === null) return (one === null) - (other === null);
      return sorting.way * compare(one, other);
    });
  };
  const show = () => {
    const end = Math.min(first + PER_PAGE, found.length);
    body.replaceChildren(...found.slice(first, end).map(draw));
    const where = found.length ? number(first + 1) + "–" + number(end) + " of " : "";
    const inAll = found.length < everything.length ? " (" + number(everything.length) + " in all)" : "";
    status.textContent = where + count(found.length, "deletion") + inAll;
    before.disabled = first === 0;
    after.disabled = end === found.length;
  };
  const choose = () => {
    const wanted = topic.value.trim().toLowerCase();
    const [low, high] = [from, to].map((each) => (each.value ? Date.parse(each.value + "Z") : null));
    found = sorted(everything.filter((row) =>
      (!wanted || names[row].includes(wanted)) &&
      (outcome.value === "" || data.outcome[row] === Number(outcome.value)) &&
      (cause.value === "" || data.causes[row].includes(Number(cause.value))) &&
      (low === null || (marked[row] !== null && marked[row] >= low)) &&
      (high === null || (marked[row] !== null && marked[row] <= high))));
    first = 0;
    show();
  };
  const sortBy = (column, way) => {
    sorting = column === null ? null : { column, way };
    heads.forEach((head, index) => {
      if (index === column) head.setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    order.value = column === null ? "" : column;
    choose();
  };
  const usual = (column) => (column === 0 || column === COLUMNS.length - 1 ? 1 : -1);
  heads.forEach((head, index) => {
    if (head.classList.contains("plot")) return;
    const button = make("button", "", labels[index]);
    button.type = "button";
    button.addEventListener("click", () => {
      sortBy(index, sorting && sorting.column === index ? -sorting.way : usual(index));
    });
    head.replaceChildren(button);
  });
  order.addEventListener("change", () => {
    const column = order.value === "" ? null : Number(order.value);
    sortBy(column, usual(column));
  });
  [topic, outcome, cause, from, to].forEach((each) => each.addEventListener("input", choose));
  const turn = (rows) => {
    first += rows;
    show();
    table.closest(".scroll").scrollTop = 0;
  };
  before.addEventListener("click", () => turn(-PER_PAGE));
  after.addEventListener("click", () => turn(PER_PAGE));

  document.querySelectorAll(".without-script").forEach((each) => each.remove());
  const box = table.closest(".scroll");
  box.before(bars);
  box.after(pager);
  choose();
})();
