// What the middlewares do with their options, on requests and responses of Node's own. With the
// frameworks themselves, and over HTTP, tests/e2e/test_node_frameworks.py tries them.
import assert from 'node:assert/strict'
import { IncomingMessage, ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { Socket } from 'node:net'
import { test } from 'node:test'
import { ClientAddress, Limiter, ManualClock } from 'sluicegate'

const load = createRequire(import.meta.url)
const { rateLimit } = load('../frameworks/express.js')
const { rateLimit: koa } = load('../frameworks/koa.js')
const { rateLimit: hono } = load('../frameworks/hono.js')
const { gateOf, nodeClient } = load('../frameworks/shared.js')

function limiter() {
  return new Limiter('memory://', { clock: new ManualClock() })
}

/**
 * @param {(request: any, response: any, next: any) => Promise<void>} middleware
 * @param {{ peer?: string, headers?: Record<string, string>, url?: string }} [of]
 */
async function send(middleware, { peer = '203.0.113.1', headers = {}, url = '/' } = {}, onto = undefined) {
  const socket = new Socket()
  Object.defineProperty(socket, 'remoteAddress', { value: peer })
  const request = new IncomingMessage(socket)
  Object.assign(request, { headers, url })
  /** @type {any} */
  const response = onto ?? new ServerResponse(request)
  let body = ''
  response.end = (/** @type {string} */ text) => (body = text)
  /** @type {unknown[][]} */
  const next = []
  await middleware(request, response, (/** @type {unknown[]} */ ...given) => next.push(given))
  return { status: response.statusCode, headers: response.getHeaders(), body, next, response }
}

test('who is not over passes with the fields, who is over gets a problem', async () => {
  const middleware = rateLimit({ limit: limiter().limit('api', '1/m') })
  const first = await send(middleware)
  assert.deepEqual(first.next, [[]])
  assert.deepEqual(
    { ...first.headers },
    { 'ratelimit-policy': '"api";q=1;w=60', ratelimit: '"api";r=0;t=60' },
  )
  const second = await send(middleware)
  assert.deepEqual([second.next, second.status], [[], 429])
  assert.equal(second.headers['content-type'], 'application/problem+json')
  assert.equal(second.headers['retry-after'], '60')
  assert.deepEqual(JSON.parse(second.body)['violated-policies'], ['api'])
})

test('the key is the peer, and what a client says of itself changes nothing', async () => {
  const middleware = rateLimit({ limit: limiter().limit('api', '1/m') })
  assert.equal((await send(middleware)).status, 200)
  for (const name of ['x-forwarded-for', 'forwarded', 'x-real-ip']) {
    assert.equal((await send(middleware, { headers: { [name]: '198.51.100.1' } })).status, 429)
  }
  assert.equal((await send(middleware, { peer: '::ffff:203.0.113.1' })).status, 429)
  assert.equal((await send(middleware, { peer: '2001:db8::1' })).status, 200)
  assert.equal((await send(middleware, { peer: '2001:db8::2' })).status, 429)
  assert.equal((await send(middleware, { peer: '2001:db8:0:1::1' })).status, 200)
})

test('a ClientAddress as the key reads the header of its proxies', async () => {
  const key = new ClientAddress({ trusted: ['loopback'], header: 'forwarded' })
  const middleware = rateLimit({ limit: limiter().limit('api', '1/m'), key })
  const from = (/** @type {string} */ address) => ({
    peer: '127.0.0.1',
    headers: { forwarded: `for=${address}` },
  })
  assert.equal((await send(middleware, from('198.51.100.1'))).status, 200)
  assert.equal((await send(middleware, from('198.51.100.2'))).status, 200)
  assert.equal((await send(middleware, from('198.51.100.1'))).status, 429)
})

test('limit, key, cost and skip by request, also async', async () => {
  const all = limiter()
  const plans = { free: all.limit('free', '2/m'), vip: all.limit('vip', '10/m') }
  const middleware = rateLimit({
    limit: async (/** @type {any} */ request) => (request.headers.vip ? plans.vip : plans.free),
    key: async (/** @type {any} */ request) => request.headers.user,
    cost: (/** @type {any} */ request) => (request.url === '/export' ? 2 : 1),
    skip: async (/** @type {any} */ request) => request.url === '/health',
  })
  const remaining = async (/** @type {string} */ url, /** @type {Record<string, string>} */ headers) =>
    String((await send(middleware, { url, headers })).headers.ratelimit)
  assert.match(await remaining('/export', { user: 'a' }), /"free";r=0/)
  assert.match(await remaining('/', { user: 'a', vip: '1' }), /"vip";r=9/)
  assert.match(await remaining('/', { user: 'b' }), /"free";r=1/)
  const health = await send(middleware, { url: '/health', headers: { user: 'a' } })
  assert.deepEqual([health.next, { ...health.headers }], [[[]], {}])
})

test('one key for all', async () => {
  const middleware = rateLimit({ limit: limiter().limit('api', '1/m'), key: 'everyone' })
  assert.equal((await send(middleware)).status, 200)
  assert.equal((await send(middleware, { peer: '198.51.100.1' })).status, 429)
})

test('the older fields, and a body of one’s own', async () => {
  const all = limiter()
  const limit = all.limit('api', '1/m')
  const refuse = async (/** @type {any} */ refusal) => {
    await limit.reset('203.0.113.1')
    const middleware = rateLimit({ limit, refusal, legacyHeaders: true })
    await send(middleware)
    return send(middleware)
  }
  const text = await refuse((/** @type {any} */ decision) => `${decision.retryAfterMs} ms`)
  assert.deepEqual([text.status, text.body], [429, '60000 ms'])
  assert.equal(text.headers['content-type'], 'text/plain; charset=utf-8')
  assert.equal(text.headers['x-ratelimit-limit'], '1')
  const json = await refuse(async (/** @type {any} */ _, /** @type {any} */ request) => ({ at: request.url }))
  assert.equal(json.body, '{"at":"/"}')
  assert.equal(json.headers['content-type'], 'application/json; charset=utf-8')
  const nothing = await refuse(() => undefined)
  assert.ok(nothing.next[0]?.[0] instanceof TypeError)
})

test('the fields of several limits stand together', async () => {
  const all = limiter()
  const [site, user] = [all.limit('site', '9/s'), all.limit('user', '1/m')]
  const first = await send(rateLimit({ limit: site, key: 'all' }))
  const { headers } = await send(rateLimit({ limit: user }), {}, first.response)
  assert.equal(headers['ratelimit-policy'], '"site";q=9;w=1, "user";q=1;w=60')
  assert.equal(headers.ratelimit, '"site";r=8;t=1, "user";r=0;t=60')
})

test('what fails goes to the framework, and nothing passes', async () => {
  const all = limiter()
  const limit = all.limit('api', '1/m')
  const why = new Error('why')
  const failing = () => {
    throw why
  }
  for (const options of [
    { limit, key: failing },
    { limit, cost: failing },
    { limit, skip: failing },
    { limit: failing },
  ]) {
    assert.deepEqual((await send(rateLimit(options))).next, [[why]])
  }
  for (const options of [
    { limit: () => undefined },
    { limit, key: () => 42 },
    { limit, key: () => '' },
    { limit, cost: -1 },
  ]) {
    const { next } = await send(rateLimit(options))
    assert.equal(next.length, 1)
    const [[error]] = /** @type {any} */ (next)
    assert.equal(error.code, 'ARGUMENT')
  }
  await assert.rejects(koa({ limit, key: failing })({ req: {} }, assert.fail), why)
})

test('wrong options are refused when the middleware is made', () => {
  const limit = limiter().limit('api', '1/m')
  for (const options of [
    undefined,
    {},
    { limit: '1/s' },
    { limit, skip: true },
    { limit, refusal: 'no' },
    { limit, kee: 'k' },
  ]) {
    for (const make of [rateLimit, koa, hono]) assert.throws(() => make(options), TypeError)
  }
})

test('a route’s options before those for all', async () => {
  const all = limiter()
  const [one, other] = [all.limit('one', '1/m'), all.limit('other', '1/m')]
  assert.equal(gateOf(nodeClient, {}), undefined)
  assert.equal(gateOf(nodeClient, { limit: one }, false), undefined)
  assert.equal(gateOf(nodeClient, {}, undefined, { cost: 2 }), undefined)
  const gate = gateOf(nodeClient, { limit: one, key: 'k' }, undefined, { limit: other, cost: 0 })
  const { decision, headers } = await gate.decide({})
  assert.deepEqual([decision.remaining, headers['RateLimit-Policy']], [1, '"other";q=1;w=60'])
  // A handler's options where its controller has none.
  assert.notEqual(gateOf(nodeClient, {}, false, { limit: one }), undefined)
})

test('Hono without a server has no client address, and says so', async () => {
  const limit = limiter().limit('api', '1/m')
  const context = { env: undefined, req: { header: () => undefined } }
  await assert.rejects(hono({ limit })(context, assert.fail), /give a key/)
})
