// A call that is given up rejects with the signal's reason, and what it waited for is given back.
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Limiter, ManualClock } from 'sluicegate'
import { prefix, stores } from './helpers.mjs'

for (const { source, url } of stores) {
  describe(`aborting on ${source}`, () => {
    /** @param {import('sluicegate').LimiterOptions} [options] */
    function open(options) {
      return new Limiter(url, { prefix: prefix(), timeoutMs: 5000, denyCacheMs: 0, ...options })
    }

    test('before the call', async () => {
      const limit = open().limit('a', '1/day')
      const signal = AbortSignal.abort()
      await assert.rejects(limit.acquire('k', { signal }), { name: 'AbortError' })
      await assert.rejects(limit.reserve('k', { signal }), { name: 'AbortError' })
      await assert.rejects(limit.hold('k', { signal: AbortSignal.abort('why') }), (why) => why === 'why')
      assert.equal((await limit.peek('k')).remaining, 1)
    })

    test('gives the turn back', async () => {
      const limit = open({ clock: new ManualClock() }).limit('a', '1/h')
      await limit.tryAcquire('k')
      const before = await limit.peek('k')
      const reason = new Error('changed my mind')
      const controller = new AbortController()
      const call = limit.acquire('k', 1, { signal: controller.signal })
      await sleep(50)
      assert.equal((await limit.peek('k')).retryAfterMs, 7_200_000)
      controller.abort(reason)
      await assert.rejects(call, (error) => error === reason)
      // Giving back is not waited for.
      const until = performance.now() + 20_000
      let after = await limit.peek('k')
      while (after.retryAfterMs !== before.retryAfterMs && performance.now() < until) {
        await sleep(5)
        after = await limit.peek('k')
      }
      assert.deepEqual(after, before)
    })

    test('one signal for many calls', async () => {
      const limit = open({ clock: new ManualClock() }).limit('a', '1/h')
      await limit.tryAcquire('k')
      const controller = new AbortController()
      const calls = Array.from({ length: 100 }, () => limit.acquire('k', { signal: controller.signal }))
      const rejections = calls.map((call) => assert.rejects(call, { name: 'AbortError' }))
      assert.equal(getEventListeners(controller.signal, 'abort').length, 1)
      controller.abort()
      await Promise.all(rejections)
      assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
    })

    test('a signal that goes on being used keeps nothing of calls that are done', async () => {
      const limit = open().limit('a', 'fixed-window 100000/day')
      const controller = new AbortController()
      for (let round = 0; round < 3; round++) {
        const calls = Array.from({ length: 100 }, () => limit.acquire('k', { signal: controller.signal }))
        await Promise.all(calls)
        assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
      }
    })

    test('the others move up', async () => {
      const limit = open().limit('a', '1/200ms burst 1')
      await limit.acquire('k')
      const controller = new AbortController()
      const first = limit.acquire('k', { signal: controller.signal, timeoutMs: 20_000 })
      controller.abort()
      await assert.rejects(first, { name: 'AbortError' })
      assert.equal((await limit.acquire('k', { timeoutMs: 20_000 })).allowed, true)
    })

    test('by a timeout signal, the reason is its own', async () => {
      const limit = open().limit('a', '1/h')
      await limit.acquire('k')
      const call = limit.acquire('k', { signal: AbortSignal.timeout(20) })
      // AbortSignal.timeout does not hold the process open, but the call does.
      await assert.rejects(call, { name: 'TimeoutError' })
    })

    test('a permit that was waited for stays free', async () => {
      const limit = open().limit('jobs', 'concurrency 1 ttl 1m')
      const permit = await limit.hold('k')
      const controller = new AbortController()
      const waiting = Array.from({ length: 20 }, () =>
        limit.hold('k', { timeoutMs: 60_000, signal: controller.signal }),
      )
      const rejections = Promise.all(waiting.map((call) => assert.rejects(call, { name: 'AbortError' })))
      controller.abort()
      permit.release()
      await rejections
      const next = await limit.hold('k', { timeoutMs: 20_000 })
      assert.equal(next.allowed, true)
      next.release()
    })

    test('after the answer, nothing happens', async () => {
      const limit = open().limit('a', 'fixed-window 10/day')
      const controller = new AbortController()
      assert.equal((await limit.acquire('k', { signal: controller.signal })).remaining, 9)
      controller.abort()
      assert.equal((await limit.peek('k')).remaining, 9)
    })

    test('a call that was decided in the meantime counts as decided', async () => {
      const limit = open().limit('a', 'fixed-window 1000/day')
      const controllers = Array.from({ length: 200 }, () => new AbortController())
      const calls = controllers.map(({ signal }) => limit.acquire('k', { signal }))
      const settled = Promise.allSettled(calls)
      await sleep(1)
      for (const controller of controllers) controller.abort()
      const admitted = (await settled).filter((call) => call.status === 'fulfilled').length
      // Those that were given up while the store decided were taken all the same.
      const { remaining } = await limit.peek('k')
      assert.ok(1000 - remaining >= admitted, `${admitted} admitted, ${remaining} remaining`)
      assert.ok(1000 - remaining <= 200)
    })
  })
}
