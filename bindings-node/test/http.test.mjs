// What a server needs: header fields, problem details, and who the client is behind proxies.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { ClientAddress, HTTP_PROBLEM_CONTENT_TYPE, HTTP_STATUS, Limiter, ManualClock } from 'sluicegate'

/**
 * @typedef {{ name: string, trusted: string[], header?: 'forwarded', ipv4_prefix?: number,
 *   ipv6_prefix?: number, peer: string, values: string[], key: string, error_contains?: string }} Case
 */
/** @type {{ cases: Case[] }} */
const { cases } = JSON.parse(readFileSync(new URL('../../tests/addresses.json', import.meta.url), 'utf8'))

/** @param {Case} of */
function client({ trusted, header, ipv4_prefix: ipv4Prefix, ipv6_prefix: ipv6Prefix }) {
  return new ClientAddress({ trusted, header, ipv4Prefix, ipv6Prefix })
}

for (const each of cases) {
  test(`client address: ${each.name}`, () => {
    if (each.error_contains !== undefined) {
      assert.throws(() => client(each), { code: 'CONFIG', message: new RegExp(each.error_contains) })
      return
    }
    const address = client(each)
    assert.equal(address.key(each.peer, each.values), each.key)
    assert.equal(address.key(each.peer === '' ? undefined : each.peer, each.values), each.key)
    if (each.values.length === 1) assert.equal(address.key(each.peer, each.values[0]), each.key)
    if (each.values.length === 0) assert.equal(address.key(each.peer), each.key)
    assert.equal(address.header, each.header?.toLowerCase() ?? 'x-forwarded-for')
  })
}

test('a client address trusts nobody by default', () => {
  assert.equal(new ClientAddress().key('127.0.0.1', '203.0.113.7'), '127.0.0.1')
})

test('a lone surrogate is nonsense, not an error', () => {
  const address = new ClientAddress({ trusted: ['loopback'] })
  assert.equal(address.key('127.0.0.1', '\ud800'), '127.0.0.1')
  assert.equal(address.key('\ud800', '203.0.113.7'), 'unknown')
})

test('wrong types are type errors', async () => {
  /** @type {any} */
  const wrong = 1
  const address = new ClientAddress()
  const limiter = new Limiter()
  const limit = limiter.limit('a', '1/s')
  const decision = await limit.peek('k')
  for (const call of [
    () => new ClientAddress({ trusted: wrong }),
    () => new ClientAddress({ trusted: [wrong] }),
    () => new ClientAddress({ header: wrong }),
    () => new ClientAddress({ ipv6Prefix: /** @type {any} */ ('64') }),
    () => address.key(wrong),
    () => address.key('127.0.0.1', wrong),
    () => address.key('127.0.0.1', [wrong]),
    () => limit.httpHeaders(wrong),
    () => limit.httpHeaders(/** @type {any} */ ({})),
    () => limit.httpHeaders({ ...decision, limit: Number.NaN }),
    () => limit.httpHeaders({ ...decision, rule: 16 }),
    () => limit.httpHeaders({ ...decision, source: /** @type {any} */ ('moon') }),
    () => limit.httpProblem(wrong),
    () => limiter.httpHeaders(wrong),
    () => limiter.httpHeaders([wrong]),
    () => limiter.httpProblem([[limit, wrong]]),
  ]) {
    assert.throws(call, TypeError, call.toString())
  }
  for (const ipv6Prefix of [0, 129, 1.5, Number.NaN, 1e300]) {
    assert.throws(() => new ClientAddress({ ipv6Prefix }), { code: 'CONFIG' })
  }
})

test('header fields and problem details of a decision', async () => {
  const limit = new Limiter('memory://', { clock: new ManualClock() }).limit('login', '1/m burst 2; 1000/d')
  assert.deepEqual(limit.httpHeaders(await limit.tryAcquire('k')), {
    'RateLimit-Policy': '"login-1";q=1;w=60;sg-burst=2, "login-2";q=1000;w=86400',
    RateLimit: '"login-1";r=1;t=60',
  })
  await limit.tryAcquire('k')
  const refused = await limit.tryAcquire('k')
  assert.equal(refused.rule, 0)
  const headers = limit.httpHeaders(refused, { legacy: true })
  assert.equal(headers['Retry-After'], '60')
  assert.equal(headers['X-RateLimit-Limit'], '2')
  assert.equal(headers['X-RateLimit-Remaining'], '0')
  assert.equal(headers['X-RateLimit-Reset'], '120')
  const problem = JSON.parse(limit.httpProblem(refused))
  assert.deepEqual([problem.status, problem['violated-policies']], [HTTP_STATUS, ['login-1']])
  assert.equal(HTTP_STATUS, 429)
  assert.equal(HTTP_PROBLEM_CONTENT_TYPE, 'application/problem+json')
})

test('header fields and problem details of several limits', async () => {
  const limiter = new Limiter('memory://', { clock: new ManualClock() })
  const [user, site] = [limiter.limit('user', '1/m'), limiter.limit('site', '9/s')]
  const take = async () => [await user.tryAcquire('u'), await site.tryAcquire('s')]
  await take()
  const [ofUser, ofSite] = await take()
  assert.ok(ofUser && ofSite && !ofUser.allowed && ofSite.allowed)
  /** @type {[typeof user, typeof ofUser][]} */
  const pairs = [
    [user, ofUser],
    [site, ofSite],
  ]
  assert.deepEqual(limiter.httpHeaders(pairs), {
    'RateLimit-Policy': '"user";q=1;w=60, "site";q=9;w=1',
    RateLimit: '"user";r=0;t=60, "site";r=7;t=1',
    'Retry-After': '60',
  })
  assert.deepEqual(JSON.parse(limiter.httpProblem(pairs))['violated-policies'], ['user'])
})
