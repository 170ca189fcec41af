// What the page asks of its server, with the token where the server wants one. The token is kept in this tab only
// (sessionStorage): it ends with the tab, no other address can read it, and no browser sends it by itself.
const KEY = "lethe-token";
const form = document.getElementById("token");
const field = document.getElementById("token-text");
const said = document.getElementById("token-said");
let token = null;
try { token = sessionStorage.getItem(KEY); } catch { /* Storage is switched off: the token is kept until the page is left. */ }
let given = () => {};

// What is called when a token was given.
export function whenGiven(act) { given = act; }

function keep(text) {
  token = text;
  try {
    if (text === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, text);
  } catch { /* As above. */ }
}

function lock(sent) {
  if (sent !== token) return; // Another one was given meanwhile.
  keep(null);
  if (sent !== null) said.textContent = "That token is not accepted.";
  if (!form.hidden) return;
  form.hidden = false;
  if (!document.querySelector("dialog[open]")) field.focus();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = field.value.trim();
  if (!text) return;
  field.value = "";
  said.textContent = "";
  keep(text);
  given();
});

// The response to GET; a missing or wrong token (401) shows the form.
export async function ask(path, signal) {
  const sent = token;
  const response = await fetch(path, { cache: "no-store", headers: sent === null ? {} : { Authorization: `Bearer ${sent}` }, signal });
  if (response.status === 401) lock(sent);
  else if (response.ok) form.hidden = true;
  return response;
}

// Server-sent events: EventSource cannot send the token. `told(name, data)` is called for each; `ended(status)` once, with
// the status of a refusal or null for a lost connection. After `close` neither is called.
export function follow(path, told, ended) {
  const stop = new AbortController();
  read(path, told, stop.signal)
    .catch(() => null)
    .then((status) => { if (!stop.signal.aborted) ended(status); });
  return { close: () => stop.abort() };
}

async function read(path, told, signal) {
  const response = await ask(path, signal);
  if (!response.ok) return response.status;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return null;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const fields = Object.fromEntries(event.split("\n").map((line) => line.split(/: (.*)/s)));
      if (fields.event && !signal.aborted) told(fields.event, JSON.parse(fields.data));
    }
  }
}
