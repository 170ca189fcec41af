// Comfort only: everything on the page is there without it.
(function () {
  "use strict";
  var make = function (tag, name, text) {
    var node = document.createElement(tag);
    if (name) node.className = name;
    if (text) node.textContent = text;
    return node;
  };

  // The other theme than the system's.
  var root = document.documentElement;
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  var theme = make("button", "theme");
  theme.type = "button";
  var isDark = function () { return (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark"; };
  var name = function () { theme.textContent = isDark() ? "Light" : "Dark"; };
  theme.addEventListener("click", function () { root.dataset.theme = isDark() ? "light" : "dark"; name(); });
  dark.addEventListener("change", name);
  name();
  var about = document.querySelector(".about");
  if (about) { var place = make("div"); var dd = make("dd"); dd.append(theme); place.append(dd); about.append(place); }

  // Rows by a column: by what data-sort says, else by the text.
  var key = function (row, index) {
    var cell = row.cells[index];
    if (!cell) return null;
    var said = cell.dataset.sort;
    if (said === undefined) return cell.querySelector(".none") ? null : cell.textContent;
    var value = Number(said);
    return said === "" || isNaN(value) ? said : value;
  };
  var compare = function (a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };
  document.querySelectorAll("table").forEach(function (table) {
    if (table.classList.contains("timelines") && window.DecompressionStream) return; // deletions.js has all its rows.
    var body = table.tBodies[0];
    if (!body || body.rows.length < 3) return;
    var heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach(function (head, index) {
      if (head.querySelector("svg") || !head.textContent) return;
      var button = make("button", "", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", function () {
        var way = head.getAttribute("aria-sort") === "descending" ? 1 : -1;
        if (!head.hasAttribute("aria-sort") && head.classList.contains("name")) way = 1;
        heads.forEach(function (each) { each.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
        var rows = Array.from(body.rows).map(function (row) { return [key(row, index), row]; });
        rows.sort(function (a, b) {
          if (a[0] === null || b[0] === null) return (a[0] === null) - (b[0] === null);
          return way * compare(a[0], b[0]);
        });
        body.append.apply(body, rows.map(function (pair) { return pair[1]; }));
      });
    });
    if (body.rows.length < 12) return;
    var box = table.closest(".scroll");
    if (!box || box.closest("figure")) return;
    var filter = make("input", "filter");
    filter.type = "search";
    filter.placeholder = "Filter " + body.rows.length + " rows";
    filter.setAttribute("aria-label", "Filter rows: " + (table.caption ? table.caption.textContent : ""));
    filter.addEventListener("input", function () {
      var wanted = filter.value.trim().toLowerCase();
      Array.from(body.rows).forEach(function (row) { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
    });
    box.before(filter);
  });

  // A button for copying beside every command.
  var pair = function (code) {
    if (!navigator.clipboard) return code;
    var copy = make("button", "copy", "Copy");
    copy.type = "button";
    copy.addEventListener("click", function () {
      navigator.clipboard.writeText(code.textContent).then(function () {
        copy.textContent = "Copied";
        setTimeout(function () { copy.textContent = "Copy"; }, 1500);
      }, function () { copy.textContent = "Not allowed"; });
    });
    var both = make("span", "with-copy");
    if (code.parentNode) code.replaceWith(both);
    both.append(code, copy);
    return both;
  };
  document.querySelectorAll("code.command").forEach(pair);
  window.lethe = { make: make, pair: pair };
})();
