// What the verbs give, as far as the scenarios don't say it: values, units, order, permits.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Limiter, ManualClock, Permit, RateLimited, SluicegateError } from 'sluicegate'
import { prefix, stores } from './helpers.mjs'

for (const { source, url } of stores) {
  describe(`calls on ${source}`, () => {
    /** @param {import('sluicegate').LimiterOptions} [options] */
    function open(options) {
      return new Limiter(url, { prefix: prefix(), timeoutMs: 5000, denyCacheMs: 0, ...options })
    }

    test('a decision is a plain object of seven fields', async () => {
      const clock = new ManualClock()
      const limit = open({ clock }).limit('a', '3/s')
      assert.deepStrictEqual(await limit.tryAcquire('k', 3), {
        allowed: true,
        limit: 3,
        remaining: 0,
        retryAfterMs: null,
        resetAfterMs: 1000,
        waitMs: 0,
        rule: 0,
        source,
      })
      clock.advance(0.001)
      const refused = await limit.tryAcquire('k')
      assert.equal(refused.allowed, false)
      assert.equal(refused.retryAfterMs, 333.333)
    })

    test('a limit has its name and its canonical text', () => {
      const limit = open().limit('login', '100 per  Second')
      assert.deepEqual([limit.name, limit.spec], ['login', '100/s'])
      assert.throws(() => Object.assign(limit, { name: 'other' }), TypeError)
    })

    test('costs and options may be left out', async () => {
      const limit = open().limit('a', '10/day')
      assert.equal((await limit.tryAcquire('k')).remaining, 9)
      assert.equal((await limit.acquire('k')).remaining, 8)
      assert.equal((await limit.acquire('k', { timeoutMs: 0 })).remaining, 7)
      assert.equal((await limit.acquire('k', 2, { timeoutMs: 0 })).remaining, 5)
      assert.equal((await limit.reserve('k', { maxWaitMs: 0 })).remaining, 4)
      assert.equal((await limit.refund('k')).remaining, 5)
      assert.equal(await limit.reset('k'), undefined)
      assert.equal((await limit.peek('k')).remaining, 10)
    })

    test('a thousand calls at once are each answered, and never too many admitted', async () => {
      const limiter = open()
      const limit = limiter.limit('a', 'fixed-window 600/day')
      const keys = Array.from({ length: 1000 }, (_, n) => (n % 10 === 0 ? 'rare' : 'often'))
      const decisions = await Promise.all(keys.map((key) => limit.tryAcquire(key)))
      const admitted = decisions.filter((decision) => decision.allowed)
      assert.equal(admitted.length, 100 + 600)
      assert.deepEqual(
        admitted.map((decision) => decision.remaining).sort((a, b) => a - b),
        [...Array(500).keys(), ...Array.from({ length: 100 }, (_, n) => [500 + n, 500 + n]).flat()],
      )
    })

    test('waiting calls of more than one drain are each answered', async () => {
      const limit = open().limit('a', 'fixed-window 10000/day')
      const decisions = await Promise.all(Array.from({ length: 2000 }, () => limit.acquire('k')))
      assert.deepEqual(new Set(decisions.map((decision) => decision.remaining)).size, 2000)
    })

    test('acquire waits its turn', async () => {
      const limit = open().limit('a', '50/s burst 1')
      const started = performance.now()
      const decisions = await Promise.all(
        [1, 2, 3, 4, 5].map(() => limit.acquire('k', { timeoutMs: 20_000 })),
      )
      assert.ok(decisions.every((decision) => decision.allowed && decision.waitMs === 0))
      // Four intervals of 20 ms, less what the last microsecond is rounded to.
      assert.ok(performance.now() - started >= 79)
    })

    test('a clock that is moved wakes who waits', async () => {
      const clock = new ManualClock()
      const limit = open({ clock }).limit('a', '1/h')
      await limit.tryAcquire('k')
      const waiting = limit.acquire('k', { timeoutMs: 3_600_000 })
      const until = performance.now() + 20_000
      let done = false
      waiting.finally(() => (done = true))
      while (!done && performance.now() < until) {
        clock.advance(3_600_000)
        await new Promise((resolve) => setTimeout(resolve, 10))
      }
      assert.equal((await waiting).allowed, true)
    })

    test('tryAcquireAll takes from all or from none', async () => {
      const limiter = open()
      const [few, many] = [limiter.limit('few', '1/day'), limiter.limit('many', '10/day')]
      const both = await limiter.tryAcquireAll([[few, 'k'], [many, 'k', 2n]]) // biome-ignore format: pairs
      assert.deepEqual([both.allowed, both.limit, both.remaining], [true, 1, 0])
      const again = await limiter.tryAcquireAll([[few, 'k'], [many, 'k', 2]]) // biome-ignore format: pairs
      assert.equal(again.allowed, false)
      assert.equal((await many.peek('k')).remaining, 8)
    })

    test('a permit is held until it is released', async () => {
      const limit = open().limit('jobs', 'concurrency 1 ttl 1m')
      const permit = await limit.hold('k')
      assert.ok(permit instanceof Permit)
      assert.equal(permit.allowed, true)
      assert.equal(permit.decision.remaining, 0)
      const refused = await limit.hold('k')
      assert.equal(refused.allowed, false)
      assert.equal(refused.decision.allowed, false)
      refused.release()
      assert.equal((await limit.hold('k', { timeoutMs: 0 })).allowed, false)
      const next = limit.hold('k', { timeoutMs: 20_000 })
      permit.release()
      permit.release()
      const second = await next
      assert.equal(second.allowed, true)
      second[Symbol.dispose]()
      const third = await limit.hold('k', { timeoutMs: 20_000 })
      assert.equal(third.allowed, true)
      assert.equal(await third[Symbol.asyncDispose](), undefined)
      assert.equal((await limit.hold('k', { timeoutMs: 20_000 })).allowed, true)
    })

    test('a limiter says how it is, and is closed for good', async () => {
      const limiter = open()
      const limit = limiter.limit('a', '1/s')
      await limit.tryAcquire('k')
      const status = limiter.status()
      assert.equal(status.state, 'up')
      assert.ok(status.since instanceof Date && Math.abs(status.since.getTime() - Date.now()) < 60_000)
      for (const field of /** @type {const} */ ([
        'processes',
        'rank',
        'localKeys',
        'refusedFull',
        'denyCacheKeys',
      ])) {
        assert.ok(Number.isInteger(status[field]), field)
      }
      assert.equal(status.lastError, null)
      limiter.close()
      limiter.close()
      assert.equal(limiter.status().state, 'closed')
      /** @param {SluicegateError} error */
      const closed = (error) => error instanceof SluicegateError && error.code === 'CLOSED'
      await assert.rejects(limit.tryAcquire('k'), closed)
      await assert.rejects(limit.acquire('k'), closed)
      await assert.rejects(limiter.tryAcquireAll([[limit, 'k']]), closed)
    })
  })
}

test('an outage under "raise" rejects with OUTAGE', async () => {
  // Port 1 of loopback: nobody listens.
  const limiter = new Limiter('redis://127.0.0.1:1', { timeoutMs: 50 })
  const limit = limiter.limit('a', '1/s', { onOutage: 'raise' })
  /** @param {SluicegateError} error */
  const outage = (error) => error instanceof SluicegateError && error.code === 'OUTAGE'
  await assert.rejects(limit.tryAcquire('k'), outage)
  assert.equal((await limiter.limit('b', '1/s', { onOutage: 'allow' }).tryAcquire('k')).source, 'outage')
  assert.equal((await limiter.limit('c', '1/s', { onOutage: 'deny' }).tryAcquire('k')).allowed, false)
  limiter.close()
})

test('a refusal can be made an error', async () => {
  const decision = await new Limiter().limit('a', '1/s').tryAcquire('k', 2)
  const error = new RateLimited(decision)
  assert.ok(error instanceof SluicegateError && error instanceof Error)
  assert.equal(error.name, 'RateLimited')
  assert.equal(error.code, 'RATE_LIMITED')
  assert.equal(error.decision, decision)
})
