// Taking a JWT apart, and checking its signature (RFC 7515, ES256) with the browser's own cryptography.

export function base64url(bytes) {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function bytes(text) {
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
}

const json = (part) => JSON.parse(new TextDecoder().decode(bytes(part)));

/** Its three parts, and what the first two say. */
export function apart(token) {
  const [header, claims, signature] = token.split(".");
  return { parts: { header, claims, signature }, header: json(header), claims: json(claims) };
}

/** The same token with other claims, and the signature that it had. */
export function forge(token, changes) {
  const { parts, claims } = apart(token);
  const changed = base64url(new TextEncoder().encode(JSON.stringify({ ...claims, ...changes })));
  return `${parts.header}.${changed}.${parts.signature}`;
}

/** Whether one of the published keys made the signature. */
export async function verified(token, keys) {
  const { parts, header } = apart(token);
  const key = keys.find((candidate) => candidate.kid === header.kid);
  if (header.alg !== "ES256" || !key) return false;
  const { kty, crv, x, y } = key;
  const algorithm = { name: "ECDSA", namedCurve: "P-256" };
  const imported = await crypto.subtle.importKey("jwk", { kty, crv, x, y }, algorithm, false, ["verify"]);
  const signed = new TextEncoder().encode(`${parts.header}.${parts.claims}`);
  return crypto.subtle.verify({ name: "ECDSA", hash: "SHA-256" }, imported, bytes(parts.signature), signed);
}

/** What each entry is for, in a sentence. */
export const MEANINGS = {
  alg: "How it is signed: ECDSA on the curve P-256.",
  typ: "What it is: an access token. An ID token in its place is refused.",
  kid: "Which of the published keys made the signature.",
  iss: "Who wrote it: this Denizen.",
  sub: "Who it is about. The id stays when the name changes, and is never given to anyone else.",
  aud: "Whom it is meant for: Denizen's own API, and Kubernetes. Anyone else must refuse it.",
  exp: "When it ends.",
  iat: "When it was written.",
  nbf: "From when it holds.",
  jti: "Its own number, so that it can be revoked.",
  sid: "The session that it came from.",
  grant_id: "The grant that it came from: revoking that ends all of its tokens.",
  auth_time: "When the password was typed.",
  client_id: "The application that it was given to: this page.",
  scope: "What the application may do with it.",
  tenant_id: "The organisation. It decides whose people a search finds, and it can not be chosen by the caller.",
  preferred_username: "The name to show. It may change, so nothing is decided by it.",
  name: "The full name.",
  email: "The mail address.",
  email_verified: "Whether someone has checked the mail address.",
  groups: "The person's groups, those of the own organisation only.",
  roles: "The roles that the operator's list allows.",
  connector: "Where the password was checked.",
  cnf: "The key that must be shown together with the token.",
};
