// A certified OpenID provider (npm `oidc-provider`) with accounts from its configuration and pages that need no script.
//
//   node provider.mjs CONFIGURATION.json
//
// Beside the provider it serves a second port for the tests alone, where they add clients, change accounts, rotate keys, and ask
// which addresses of the provider were called how often. Everything is in memory.
import { generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { createRequire } from 'node:module';

// The packages are kept outside of this folder; NODE_PATH, which names theirs, is for `require` alone.
const { Provider } = await import(createRequire(import.meta.url).resolve('oidc-provider'));

const settings = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const accounts = new Map(settings.accounts.map((account) => [account.sub, account]));
const counts = new Map();
let keys = [signingKey()];
let provider = build();

function signingKey() {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid: `key-${Date.now()}-${counts.size}` };
}

// --- what is kept ------------------------------------------------------------------------------------------------------

// Outlives the provider object, which is made anew when the keys change.
const records = (globalThis.records ??= new Map());

function adapter(model) {
  const key = (id) => `${model}:${id}`;
  const every = (test) => [...records.entries()].filter(([, record]) => test(record));
  return {
    async upsert(id, payload) {
      records.set(key(id), payload);
    },
    async find(id) {
      return records.get(key(id));
    },
    async findByUid(uid) {
      return every((record) => record.uid === uid).map(([, record]) => record).at(0);
    },
    async findByUserCode() {
      return undefined;
    },
    async consume(id) {
      records.get(key(id)).consumed = Math.floor(Date.now() / 1000);
    },
    async destroy(id) {
      records.delete(key(id));
    },
    async revokeByGrantId(grantId) {
      for (const [name] of every((record) => record.grantId === grantId)) records.delete(name);
    },
  };
}

// --- the provider ------------------------------------------------------------------------------------------------------

function build() {
  const made = new Provider(settings.issuer, {
    adapter,
    jwks: { keys },
    cookies: { keys: ['a key of the tests'] },
    claims: settings.claims,
    conformIdTokenClaims: settings.claimsInUserinfoOnly,
    scopes: ['openid', 'offline_access'],
    clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'private_key_jwt', 'none'],
    pkce: { required: () => true },
    features: {
      devInteractions: { enabled: false },
      backchannelLogout: { enabled: true },
      rpInitiatedLogout: { enabled: true, logoutSource, postLogoutSuccessSource },
    },
    interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
    loadExistingGrant,
    findAccount: async (_context, sub) => account(sub),
    renderError: async (context, out) => {
      context.type = 'html';
      context.body = page('This does not work', `<p id="error">${text(out.error)}: ${text(out.error_description)}</p>`);
    },
    issueRefreshToken: async (_context, client, code) =>
      client.grantTypeAllowed('refresh_token') && (!settings.refreshTokensByScopeOnly || code.scopes.has('offline_access')),
    rotateRefreshToken: settings.rotatesRefreshTokens,
    // Without this, addresses of this machine are refused.
    fetch: (address, { dispatcher: _refusesPrivateAddresses, ...options }) => globalThis.fetch(address, options),
    ttl: {
      AccessToken: 600, AuthorizationCode: 60, IdToken: 600, RefreshToken: 86_400, Interaction: 600, Session: 86_400, Grant: 86_400,
    },
  });
  made.use(lie);
  made.on('server_error', (_context, error) => console.error(error));
  for (const event of ['backchannel.error', 'grant.error', 'authorization.error', 'userinfo.error', 'end_session.error']) {
    made.on(event, (_context, error) => console.error(event, error.message, error.error_detail ?? ''));
  }
  return made;
}

function account(sub) {
  const found = accounts.get(sub);
  if (!found || found.disabled) return undefined;
  return { accountId: sub, claims: async () => ({ sub, ...found.claims }) };
}

// Everyone agrees to everything, unless the client asks that they are asked (`prompt=consent`).
async function loadExistingGrant(context) {
  const { client, session, params, result } = context.oidc;
  const id = result?.consent?.grantId ?? session.grantIdFor(client.clientId);
  const grant = (id && (await provider.Grant.find(id))) || new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
  grant.addOIDCScope(params.scope);
  await grant.save();
  return grant;
}

// What a provider that was broken into, or that is simply wrong, would answer: `lies` of the account that is spoken of.
async function lie(context, next) {
  await next();
  const told = (sub) => accounts.get(sub)?.lies ?? {};
  if (context.path === '/me' && context.body?.sub) Object.assign(context.body, told(context.body.sub).userinfo);
  if (context.path === '/token' && context.body?.id_token) {
    const [header, claims, signature] = context.body.id_token.split('.');
    const read = (part) => JSON.parse(Buffer.from(part, 'base64url'));
    const write = (part, lies) => Buffer.from(JSON.stringify({ ...read(part), ...lies })).toString('base64url');
    const lies = told(read(claims).sub);
    // The signature stays: nobody but the provider has the key.
    if (lies.idTokenHeader || lies.idToken) {
      context.body.id_token = [write(header, lies.idTokenHeader), write(claims, lies.idToken), lies.noSignature ? '' : signature].join('.');
    }
  }
}

// --- pages ---------------------------------------------------------------------------------------------------------------

const text = (value) => String(value ?? '').replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

function page(title, body) {
  return `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>${text(title)}</title></head>
<body><main><h1>${text(title)}</h1><p>${text(settings.name)}</p>${body}</main></body></html>`;
}

function loginPage(hint, wrong) {
  return page('Sign in at the provider', `${wrong ? '<p role="alert">Wrong.</p>' : ''}<form method="post" action="">
<label for="login">Login</label> <input id="login" name="login" value="${text(hint)}" autofocus>
<label for="password">Password</label> <input id="password" name="password" type="password">
<button type="submit">Go on</button></form>
<form method="post" action=""><input type="hidden" name="abort" value="yes"><button type="submit">Go back</button></form>`);
}

function logoutSource(context, form) {
  context.body = page('Sign out at the provider', form.replace('</form>', '<button type="submit" name="logout" value="yes">Sign out</button></form>'));
}

function postLogoutSuccessSource(context) {
  context.body = page('Signed out at the provider', '');
}

async function interaction(request, response) {
  const details = await provider.interactionDetails(request, response);
  const show = (body, status = 200) => response.writeHead(status, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' }).end(body);
  const finish = (result) => provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
  if (request.method === 'GET') {
    if (details.prompt.name === 'login') return show(loginPage(details.params.login_hint, false));
    return show(page('Do you agree?', '<form method="post" action=""><input type="hidden" name="agree" value="yes"><button type="submit">Yes</button></form>'));
  }
  const form = new URLSearchParams(await bodyOf(request));
  if (form.has('abort')) return finish({ error: 'access_denied', error_description: 'the person went back' });
  if (details.prompt.name === 'consent') {
    const grant = (details.grantId && (await provider.Grant.find(details.grantId)))
      || new provider.Grant({ clientId: details.params.client_id, accountId: details.session.accountId });
    grant.addOIDCScope(details.params.scope);
    return finish({ consent: { grantId: await grant.save() }, login: details.lastSubmission?.login });
  }
  const found = [...accounts.values()].find((one) => one.login === form.get('login') && one.password === form.get('password') && !one.disabled);
  if (!found) return show(loginPage(form.get('login'), true), 401);
  return finish({ login: { accountId: found.sub, amr: ['pwd'] } });
}

async function bodyOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
}

// --- the two listeners ---------------------------------------------------------------------------------------------------

function serve(request, response) {
  const { pathname } = new URL(request.url, settings.issuer);
  const name = pathname.startsWith('/interaction/') ? '/interaction' : pathname;
  counts.set(name, (counts.get(name) ?? 0) + 1);
  if (name !== '/interaction') return provider.callback()(request, response);
  return interaction(request, response).catch((error) => {
    console.error(error);
    response.writeHead(400, { 'content-type': 'text/html' }).end(page('This does not work', `<p id="error">${text(error.message)}</p>`));
  });
}

const changes = {
  // Replaces an account, or adds one.
  'PUT /account': (body) => accounts.set(body.sub, body),
  'PUT /client': (body) => adapter('Client').upsert(body.client_id, body),
  // The old key is gone from the key set at once, as after a theft.
  'POST /keys': () => {
    keys = [signingKey()];
    provider = build();
  },
  'GET /counts': () => Object.fromEntries(counts),
  'DELETE /counts': () => counts.clear(),
};

async function control(request, response) {
  try {
    const change = changes[`${request.method} ${request.url}`];
    const body = await bodyOf(request);
    const answer = await change(body ? JSON.parse(body) : undefined);
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(request.method === 'GET' ? answer : {}));
  } catch (error) {
    response.writeHead(400).end(String(error));
  }
}

const { host, port, tls } = settings.listen;
const server = tls ? https.createServer({ key: readFileSync(tls.key), cert: readFileSync(tls.certificate) }, serve) : http.createServer(serve);
server.listen(port, host, () => http.createServer(control).listen(settings.control, '127.0.0.1'));
