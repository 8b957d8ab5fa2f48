// An OAuth provider on loopback: oauth-provider.mjs SETTINGS, a JSON object of
// {key, life, port, store}: the private JWK that it signs with, the seconds that an
// access token lives, the port (0: any) and a file that outlives it. Prints its
// issuer. What it saw is at /-/seen, and /-/do?fail=STATUS&slow=MS&at=PATH has it
// answer with an error, or late, at paths with that end.
import http from 'node:http';
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Provider, errors } from 'oidc-provider';

const settings = JSON.parse(process.argv[2]);
const rows = new Map(settings.store && fs.existsSync(settings.store) ? JSON.parse(fs.readFileSync(settings.store)) : []);

// Rows keeps what the provider knows, on disk before anybody is told.
class Rows {
  constructor(model) { this.model = model; }
  key(id) { return `${this.model}:${id}`; }
  keep() { if (settings.store) fs.writeFileSync(settings.store, JSON.stringify([...rows])); }
  async upsert(id, row, seconds) {
    rows.set(this.key(id), { row, until: seconds ? Date.now() + seconds * 1000 : undefined });
    this.keep();
  }
  async find(id) { return this.alive(this.key(id)); }
  async findByUid(uid) { return this.first((row) => row.uid === uid); }
  async findByUserCode(code) { return this.first((row) => row.userCode === code); }
  async consume(id) {
    rows.get(this.key(id)).row.consumed = Math.floor(Date.now() / 1000);
    this.keep();
  }
  async destroy(id) {
    rows.delete(this.key(id));
    this.keep();
  }
  async revokeByGrantId(grant) {
    for (const [key, { row }] of rows) if (key.startsWith(this.key('')) && row.grantId === grant) rows.delete(key);
    this.keep();
  }
  alive(key) {
    const found = rows.get(key);
    return found && !(found.until < Date.now()) ? found.row : undefined;
  }
  first(is) {
    for (const key of rows.keys()) if (key.startsWith(this.key(''))) {
      const row = this.alive(key);
      if (row && is(row)) return row;
    }
  }
}

const seen = { registered: 0, refreshed: 0, reused: 0, revoked: 0, failed: 0, asked: 0, resources: [], errors: [], secrets: [] };
const spent = new Set();
const secret = (...all) => seen.secrets.push(...all.filter(Boolean));
const ways = { fail: 0, slow: 0, at: '' };

function configuration() {
  return {
    adapter: Rows,
    jwks: { keys: [settings.key] },
    cookies: { keys: ['of no worth'] },
    clientDefaults: { id_token_signed_response_alg: settings.key.alg },
    pkce: { required: () => true },
    rotateRefreshToken: true,
    ttl: { AccessToken: settings.life, AuthorizationCode: 60, DeviceCode: 120, Grant: 3600, Interaction: 300, RefreshToken: 3600, Session: 3600 },
    features: {
      registration: { enabled: true },
      deviceFlow: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => false,
        async getResourceServerInfo(ctx, resource) {
          if (!/^http:\/\/127\.0\.0\.1:\d+\/mcp$/.test(resource)) throw new errors.InvalidTarget();
          return { scope: 'tools', audience: resource, accessTokenTTL: settings.life, accessTokenFormat: 'jwt', jwt: { sign: { alg: settings.key.alg } } };
        },
      },
    },
  };
}

// watch counts, and collects what nobody else may see.
function watch(provider) {
  const noted = ({ oidc }) => {
    const { params: p = {} } = oidc;
    secret(p.code, p.code_verifier, p.refresh_token, p.device_code);
    if (p.grant_type !== 'refresh_token') return;
    if (spent.has(p.refresh_token)) seen.reused++;
    spent.add(p.refresh_token);
  };
  provider.on('grant.success', (ctx) => {
    noted(ctx);
    secret(ctx.body.access_token, ctx.body.refresh_token);
    seen.resources.push(ctx.oidc.params.resource);
    if (ctx.oidc.params.grant_type === 'refresh_token') seen.refreshed++;
  });
  provider.on('grant.error', (ctx, err) => {
    noted(ctx);
    if (err.message !== 'authorization_pending') seen.errors.push(`${err.message}: ${err.error_detail ?? err.error_description}`);
  });
  provider.on('grant.revoked', () => seen.revoked++);
  provider.on('server_error', (ctx, err) => seen.errors.push(err.stack));
  provider.on('registration_create.success', (ctx, client) => {
    seen.registered++;
    secret(client.clientSecret, ctx.body.registration_access_token);
  });
  provider.on('authorization.success', (ctx, out) => secret(out?.code));
  provider.on('device_authorization.success', (ctx, body) => secret(body.device_code));
}

function control(url, res) {
  if (url.pathname === '/-/do') for (const [k, v] of url.searchParams) ways[k] = k === 'at' ? v : Number(v);
  res.setHeader('Content-Type', 'application/json');
  res.end(JSON.stringify(seen));
}

let handle;
const server = http.createServer(async (req, res) => {
  const url = new URL(req.url, 'http://provider');
  if (url.pathname.startsWith('/-/')) return control(url, res);
  const meant = url.pathname.endsWith(ways.at);
  if (url.pathname === '/token') seen.asked++;
  if (meant && ways.fail) {
    seen.failed++;
    res.writeHead(ways.fail, { 'Content-Type': 'text/html' }).end('<h1>not now</h1>');
    return;
  }
  if (meant && ways.slow) {
    const end = res.end.bind(res);
    res.end = (...body) => { sleep(ways.slow).then(() => end(...body)); return res; };
  }
  handle(req, res);
});
server.listen(settings.port, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, configuration());
  watch(provider);
  handle = provider.callback();
  console.log(issuer);
});
// Whoever started it holds its standard input.
process.stdin.on('end', () => process.exit()).resume();
