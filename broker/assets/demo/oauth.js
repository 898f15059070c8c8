// Signing in as a public client does: the code flow with PKCE (RFC 7636, S256), state, nonce, the check of `iss`
// (RFC 9207), and two audiences by `resource` (RFC 8707).

import { send, show } from "./exchange.js";
import { base64url } from "./token.js";

const CLIENT = "demo";
const SCOPE = "openid profile email groups users.read";
const REMEMBERED = "denizen-demo";
export const KUBERNETES = "https://kubernetes.default.svc";

const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));
const callback = () => `${location.origin}/demo/callback`;

/** What Denizen says of itself. Undefined where it can not be had. */
export async function discover(log) {
  const { status, body } = await send(log, { address: "/.well-known/openid-configuration", note: "Where is what?" });
  return status === 200 ? body : undefined;
}

/** Leaves for the sign-in page. The password is asked for even where there is a session, so that people can be changed. */
export async function leave(provider, hint) {
  const verifier = random();
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  const address = new URL(provider.authorization_endpoint);
  const state = random();
  const nonce = random();
  const asked = new URLSearchParams({
    response_type: "code",
    client_id: CLIENT,
    redirect_uri: callback(),
    scope: SCOPE,
    state,
    nonce,
    code_challenge: base64url(new Uint8Array(digest)),
    code_challenge_method: "S256",
    login_hint: hint,
    prompt: "login",
  });
  asked.append("resource", `${provider.issuer}/api`);
  asked.append("resource", KUBERNETES);
  address.search = asked;
  sessionStorage.setItem(REMEMBERED, JSON.stringify({ verifier, state, nonce, address: address.href }));
  location.assign(address);
}

/**
 * Finishes a sign-in that has come back to /demo/callback. Returns the answer of the token endpoint; undefined where
 * nothing has come back. Throws an Error, to be shown, where something does not fit.
 */
export async function comeBack(provider, log) {
  if (location.pathname !== new URL(callback()).pathname) return undefined;
  const returned = new URLSearchParams(location.search);
  const remembered = JSON.parse(sessionStorage.getItem(REMEMBERED) ?? "null");
  sessionStorage.removeItem(REMEMBERED);
  history.replaceState(null, "", "/demo");
  if (!remembered) throw new Error("This sign-in was not begun in this window, or is finished already. Begin again.");
  if (returned.get("state") !== remembered.state) throw new Error("The answer has another state than the request. It is not used.");
  if (returned.get("iss") !== provider.issuer) throw new Error("The answer does not say that it comes from this issuer. It is not used.");

  const code = returned.get("code");
  show(log, {
    method: "GET",
    address: remembered.address,
    note: "The browser was sent to the sign-in page, and came back.",
    request: readable(remembered.address),
    answer: `303 See Other\nLocation: ${callback()}\n${listed(returned)}`,
    state: code ? "signed in" : "not signed in",
    good: Boolean(code),
    open: false,
  });
  if (!code) throw new Error(`You are not signed in: ${returned.get("error_description") ?? returned.get("error") ?? "no reason was given"}.`);

  const form = new URLSearchParams({
    grant_type: "authorization_code",
    client_id: CLIENT,
    redirect_uri: callback(),
    code,
    code_verifier: remembered.verifier,
  });
  const { status, body } = await send(log, { method: "POST", address: provider.token_endpoint, note: "The code becomes tokens.", form, open: true });
  if (status !== 200) throw new Error("The code was not taken. The answer below says why.");
  return { ...body, nonce: remembered.nonce };
}

/** Takes the token back (RFC 7009). */
export function revoke(provider, log, token) {
  const form = new URLSearchParams({ token, token_type_hint: "access_token", client_id: CLIENT });
  return send(log, { method: "POST", address: provider.revocation_endpoint ?? "/oauth2/revoke", note: "The token is taken back.", form, open: true });
}

const listed = (parameters) => [...parameters].map(([name, value], i) => `  ${i ? "&" : "?"}${name}=${value}`).join("\n");

function readable(address) {
  const url = new URL(address);
  return `GET ${url.pathname}\n${listed(url.searchParams)}\nHost: ${url.host}`;
}
