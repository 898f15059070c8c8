// A web application on the npm package `openid-client`: it signs people in at Denizen, renews, asks who they are, and signs them out.
//
//   node relying-party.mjs CONFIGURATION.json
//
// Its pages answer in JSON, for the tests. What it knows of a visitor is kept here, under a cookie.
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';

// The packages are kept outside of this folder; NODE_PATH, which names theirs, is for `require` alone.
const packages = createRequire(import.meta.url);
const oidc = await import(packages.resolve('openid-client'));
const { createRemoteJWKSet, jwtVerify } = await import(packages.resolve('jose'));

const settings = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const denizen = await oidc.discovery(new URL(settings.issuer), settings.clientId, undefined, oidc.None());
const visitors = new Map();

const pages = {
  // Away to Denizen.
  async '/login'(visitor) {
    visitor.verifier = oidc.randomPKCECodeVerifier();
    visitor.state = oidc.randomState();
    visitor.nonce = oidc.randomNonce();
    return oidc.buildAuthorizationUrl(denizen, {
      redirect_uri: settings.redirectUri,
      scope: settings.scope,
      code_challenge: await oidc.calculatePKCECodeChallenge(visitor.verifier),
      code_challenge_method: 'S256',
      state: visitor.state,
      nonce: visitor.nonce,
      ...settings.parameters,
    });
  },
  // And back.
  async '/cb'(visitor, url) {
    const checks = { pkceCodeVerifier: visitor.verifier, expectedState: visitor.state, expectedNonce: visitor.nonce, idTokenExpected: true };
    visitor.tokens = await oidc.authorizationCodeGrant(denizen, url, checks);
    visitor.claims = visitor.tokens.claims();
    return { claims: visitor.claims };
  },
  async '/me'(visitor) {
    if (!visitor.claims) return { signedIn: false };
    return { signedIn: true, userinfo: await oidc.fetchUserInfo(denizen, visitor.tokens.access_token, visitor.claims.sub) };
  },
  async '/refresh'(visitor) {
    const before = visitor.tokens;
    visitor.tokens = { ...before, ...(await oidc.refreshTokenGrant(denizen, before.refresh_token)) };
    return { renewed: before.access_token !== visitor.tokens.access_token, rotated: before.refresh_token !== visitor.tokens.refresh_token };
  },
  async '/logout'(visitor) {
    const hint = visitor.tokens.id_token;
    delete visitor.claims;
    return oidc.buildEndSessionUrl(denizen, { id_token_hint: hint, post_logout_redirect_uri: settings.goodbyeUri, state: 'gone' });
  },
  async '/goodbye'(_visitor, url) {
    return { goodbye: true, state: url.searchParams.get('state') };
  },
};

// Denizen tells of a sign-out (OpenID Connect Back-Channel Logout 1.0, 2.6).
async function toldOfSignOut(body) {
  const metadata = denizen.serverMetadata();
  const { payload } = await jwtVerify(new URLSearchParams(body).get('logout_token'), createRemoteJWKSet(new URL(metadata.jwks_uri)), {
    issuer: metadata.issuer, audience: settings.clientId, typ: 'logout+jwt', requiredClaims: ['iat', 'jti', 'events'],
  });
  if (!payload.events['http://schemas.openid.net/event/backchannel-logout'] || payload.nonce) throw new Error('no logout token');
  for (const visitor of visitors.values()) {
    if (visitor.claims && (payload.sid ? visitor.claims.sid === payload.sid : visitor.claims.sub === payload.sub)) delete visitor.claims;
  }
}

async function bodyOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
}

http.createServer(async (request, response) => {
  try {
    const url = new URL(request.url, settings.redirectUri);
    if (request.method === 'POST' && url.pathname === '/backchannel') {
      await toldOfSignOut(await bodyOf(request));
      return response.writeHead(200, { 'cache-control': 'no-store' }).end();
    }
    const id = /visitor=([^;]+)/.exec(request.headers.cookie ?? '')?.[1] ?? randomUUID();
    if (!visitors.has(id)) visitors.set(id, {});
    response.setHeader('set-cookie', `visitor=${id}; HttpOnly`);
    const answer = await pages[url.pathname](visitors.get(id), url);
    if (answer instanceof URL) return response.writeHead(303, { location: answer.href }).end();
    return response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  } catch (error) {
    console.error(error);
    return response.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify({ error: error.error ?? error.code ?? String(error) }));
  }
}).listen(settings.port, '127.0.0.1');
