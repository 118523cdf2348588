// limit.guard: a function held to a limit.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Limiter, ManualClock, RateLimited } from 'sluicegate'

function limit() {
  return new Limiter('memory://', { clock: new ManualClock() }).limit('a', '2/m')
}

test('a refused call rejects with the decision, and the function is not called', async () => {
  let called = 0
  const guarded = limit().guard(
    (/** @type {string} */ to, /** @type {number} */ add) => {
      called += 1
      return `${to}${add}`
    },
    { key: (to) => to },
  )
  assert.deepEqual([await guarded('a', 1), await guarded('a', 2)], ['a1', 'a2'])
  await assert.rejects(guarded('a', 3), (error) => {
    assert.ok(error instanceof RateLimited)
    assert.deepEqual(
      [error.code, error.decision.allowed, error.decision.retryAfterMs],
      ['RATE_LIMITED', false, 30_000],
    )
    return true
  })
  assert.equal(called, 2)
  assert.equal(await guarded('b', 4), 'b4')
})

test('cost, this, and what the function throws', async () => {
  const why = new Error('why')
  const mailer = {
    name: 'mailer',
    send: limit().guard(
      /** @this {{ name: string }} @param {number} units */ async function (units) {
        if (units === 0) throw why
        return this.name
      },
      { key: async () => 'k', cost: (units) => units },
    ),
  }
  await assert.rejects(mailer.send(0), why)
  assert.equal(await mailer.send(2), 'mailer')
  await assert.rejects(mailer.send(1), RateLimited)
})

test('bad arguments', async () => {
  /** @type {any} */
  const guard = limit().guard.bind(limit())
  assert.throws(() => guard('no function', { key: 'k' }), TypeError)
  assert.throws(() => guard(() => {}), TypeError)
  assert.throws(() => guard(() => {}, {}), TypeError)
  await assert.rejects(guard(() => {}, { key: '' })(), { code: 'ARGUMENT' })
  await assert.rejects(guard(() => {}, { key: () => 1 })(), TypeError)
})
