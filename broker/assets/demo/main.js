// The walk: ties the page's buttons to the four steps. Tokens stay in this page's memory and go with it.

import { element, send, shorten } from "./exchange.js";
import { KUBERNETES, comeBack, discover, leave, revoke } from "./oauth.js";
import { MEANINGS, apart, forge, verified } from "./token.js";

const at = (id) => document.getElementById(id);
const tenants = [...document.querySelectorAll("[data-tenant]")].map(({ dataset }) => ({ id: dataset.tenant, name: dataset.name }));
const say = (text) => { at("status").textContent = text; };

function trouble(text) {
  at("trouble").replaceChildren(text);
  at("trouble").hidden = false;
}

/** Lets a button work once at a time, and clears what its last use left. */
function onPress(button, log, work) {
  button.addEventListener(button.tagName === "FORM" ? "submit" : "click", async (event) => {
    event.preventDefault();
    if (button.dataset.busy) return;
    button.dataset.busy = "yes";
    log?.replaceChildren();
    at("trouble").hidden = true;
    try {
      await work();
    } catch (error) {
      trouble(error.message);
    } finally {
      delete button.dataset.busy;
    }
  });
}

function value(name, content) {
  if (["exp", "iat", "nbf", "auth_time"].includes(name)) return `${content} (${new Date(content * 1000).toLocaleTimeString()})`;
  if (Array.isArray(content)) return content.join("\n") || "(none)";
  return typeof content === "object" ? JSON.stringify(content) : String(content);
}

function table(caption, entries) {
  const rows = Object.entries(entries).map(([name, content]) => {
    const lines = value(name, content).split("\n").flatMap((line, i) => (i ? [element("br"), line] : [line]));
    const head = element("th", { scope: "row" }, element("code", { textContent: name }));
    return element("tr", { className: name === "tenant_id" ? "telling" : "" }, head, element("td", {}, ...lines), element("td", { textContent: MEANINGS[name] ?? "" }));
  });
  return element("table", {}, element("caption", { textContent: caption }), element("tbody", {}, ...rows));
}

function verdict(good, text) {
  return element("p", { className: `verdict ${good ? "good" : "bad"}`, textContent: text });
}

async function takeApart(provider, token) {
  const { parts, header, claims } = apart(token);
  const keys = (await send(at("log-2"), { address: provider.jwks_uri, note: "The public keys." })).body?.keys ?? [];
  const good = await verified(token, keys);
  const raw = element("div", { className: "parts", tabIndex: 0 });
  raw.setAttribute("role", "region");
  raw.setAttribute("aria-label", "The token");
  const spans = Object.entries(parts).map(([className, textContent]) => element("span", { className, textContent }));
  raw.append(...spans.flatMap((span, i) => (i ? [".", span] : [span])));
  at("token").replaceChildren(
    verdict(good, good ? "The signature is good: your browser has checked it against the published key." : "The signature does not fit any published key."),
    raw,
    table("Header", header),
    table("Claims", claims),
  );
}

async function review(token, log, note) {
  const json = { apiVersion: "authentication.k8s.io/v1", kind: "TokenReview", spec: { token, audiences: [KUBERNETES] } };
  const { body } = await send(log, { method: "POST", address: "/apis/authentication.k8s.io/v1/tokenreviews", note, json, open: true });
  const user = body?.status?.authenticated ? body.status.user : undefined;
  const text = user ? `Kubernetes lets in ${user.username}${user.groups?.length ? `, in ${user.groups.join(", ")}` : ""}.` : "Kubernetes lets no one in.";
  log.prepend(verdict(Boolean(user), text));
  say(text);
}

async function search(token, address, note) {
  const log = at("log-3");
  const { status, body } = await send(log, { address, note, bearer: token, open: true });
  const people = [body?.users, body?.value, body?.items, body].find(Array.isArray);
  const text = status === 404 ? "There is no such organisation for you." : people ? `${people.length} found.` : "Nothing can be said.";
  const names = (people ?? []).map((p) => element("li", { textContent: p.displayName ?? p.display_name ?? p.username ?? p.id }));
  log.prepend(verdict(Boolean(people), text), ...(names.length ? [element("ul", { className: "chips" }, ...names)] : []));
  say(text);
}

function unlock(provider, token) {
  const { claims } = apart(token);
  const own = tenants.find(({ id }) => id === claims.tenant_id);
  const other = tenants.find(({ id }) => id !== claims.tenant_id);
  const name = claims.preferred_username ?? claims.sub;
  at("log-1").prepend(verdict(true, `You are ${name} of ${own?.name ?? claims.tenant_id}.`));
  for (const waiting of document.querySelectorAll(".waiting")) waiting.hidden = true;
  for (const id of ["token", "search", "review"]) at(id).hidden = false;

  onPress(at("search"), at("log-3"), () => {
    const asked = new URLSearchParams({ search: at("term").value });
    return search(token, `/api/v1/users?${asked}`, "Colleagues, of the own organisation.");
  });
  at("foreign").hidden = !other;
  onPress(at("foreign"), at("log-3"), () => {
    const asked = new URLSearchParams({ search: at("term").value });
    return search(token, `/api/v1/tenants/${encodeURIComponent(other.id)}/users?${asked}`, `The people of ${other.name}.`);
  });
  onPress(at("review-good"), at("log-4"), () => review(token, at("log-4"), "Whose token is this?"));
  at("review-forged").hidden = !other;
  onPress(at("review-forged"), at("log-4"), () => {
    return review(forge(token, { tenant_id: other?.id }), at("log-4"), `The same token, with tenant_id changed to ${other?.id}.`);
  });
  onPress(at("revoke"), at("log-4"), async () => {
    const { status } = await revoke(provider, at("log-4"), token);
    const done = status === 200;
    const end = element("a", { href: provider.end_session_endpoint ?? "/account", textContent: "End the browser's session too" });
    at("log-4").prepend(verdict(done, done ? "The token is revoked. Review it again." : "The token could not be revoked."), element("p", {}, end));
    say(done ? "The token is revoked." : "The token could not be revoked.");
  });
}

async function walk() {
  if (!crypto.subtle) return trouble("Browsers do cryptography on https pages and on this computer's own addresses only. Open the demo at http://127.0.0.1 or by https.");
  const provider = await discover(at("log-1"));
  if (!provider) return trouble("Denizen does not answer. Is it still running?");
  const home = new URL("/demo", provider.issuer);
  if (home.origin !== location.origin) return trouble(element("span", {}, "The demo works at the issuer's own address: ", element("a", { href: home.href, textContent: home.href })));
  for (const button of document.querySelectorAll("[data-hint]")) onPress(button, null, () => leave(provider, button.dataset.hint));

  const answer = await comeBack(provider, at("log-1"));
  if (!answer) return undefined;
  if (apart(answer.id_token).claims.nonce !== answer.nonce) throw new Error("The ID token belongs to another sign-in. It is not used.");
  unlock(provider, answer.access_token);
  say("You are signed in.");
  return takeApart(provider, answer.access_token);
}

walk().catch((error) => trouble(shorten(error.message)));
