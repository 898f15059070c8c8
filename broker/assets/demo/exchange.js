// One request and its answer: sends the one, shows both.

/** Makes an element. Text is set as text, never as markup. */
export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** A token, a code, a challenge: enough of it to tell it from another one. */
export function shorten(text) {
  const secret = /(?:[\w-]{12,}\.){1,}[\w-]*|[\w-]{44,}/g;
  return text.replace(secret, (long) => (long.length > 48 ? `${long.slice(0, 16)}…${long.slice(-6)} (${long.length} characters)` : long));
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function box(title, text) {
  const shown = element("pre", { tabIndex: 0, textContent: shorten(text) });
  shown.setAttribute("role", "region");
  shown.setAttribute("aria-label", title);
  return element("div", {}, element("h4", { textContent: title }), shown);
}

/** Adds an exchange to a step's list. `good` says whether the answer is one to be glad of. */
export function show(log, { method, address, note, request, answer, state, good, open }) {
  const entry = element(
    "details",
    { open },
    element(
      "summary",
      {},
      element("code", { textContent: `${method} ${new URL(address, location.origin).pathname}` }),
      element("span", { className: "note", textContent: note }),
      element("span", { className: `state ${good ? "good" : "bad"}`, textContent: state }),
    ),
    element("div", { className: "exchange" }, box("Request", request), box("Answer", answer)),
  );
  log.append(entry);
}

/**
 * Sends a request and shows it with its answer. `form` (URLSearchParams) and `json` are the two kinds of body.
 * Returns { status, body }: status 0 where there was no answer, body undefined where it is no JSON.
 */
export async function send(log, { method = "GET", address, note, bearer, form, json, open = false }) {
  const url = new URL(address, location.origin);
  const headers = { Accept: "application/json" };
  if (bearer) headers.Authorization = `Bearer ${bearer}`;
  if (form) headers["Content-Type"] = "application/x-www-form-urlencoded";
  if (json) headers["Content-Type"] = "application/json";
  const lines = [`${method} ${url.pathname}${url.search} HTTP/1.1`, `Host: ${url.host}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  if (form) lines.push("", [...form].map(([name, value]) => `${name}=${value}`).join("\n&"));
  if (json) lines.push("", JSON.stringify(json, null, 2));

  let status = 0;
  let state = "no answer";
  let text = "The server did not answer. Is it still running?";
  try {
    const body = form ?? (json && JSON.stringify(json));
    const answer = await fetch(url, { method, headers, body, credentials: "omit", cache: "no-store" });
    status = answer.status;
    state = `${answer.status} ${answer.statusText}`.trim();
    text = await answer.text();
  } catch (error) {
    console.error(error);
  }
  show(log, { method, address: url, note, request: lines.join("\n"), answer: pretty(text) || "(empty)", state, good: status >= 200 && status < 300, open });
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    body = undefined;
  }
  return { status, body };
}
