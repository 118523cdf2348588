// What changes is told to onEvent.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { Limiter } from 'sluicegate'
import { run } from './helpers.mjs'

/** @typedef {import('sluicegate').LimiterEvent} LimiterEvent */

/**
 * The next event of a limiter, which is kept open meanwhile by a timer of ours.
 *
 * @param {string} url
 * @param {(limiter: Limiter) => unknown} then
 * @returns {Promise<LimiterEvent>}
 */
function next(url, then = () => {}) {
  return new Promise((resolve, reject) => {
    const patience = setTimeout(() => reject(new Error('no event came')), 30_000)
    const onEvent = (/** @type {LimiterEvent} */ event) => {
      clearTimeout(patience)
      limiter.close()
      resolve(event)
    }
    const limiter = new Limiter(url, { maxKeys: 64, onEvent })
    then(limiter)
  })
}

test('a store that is away is told, with the reason and without the password', async () => {
  const event = await next('redis://user:secret@127.0.0.1:1')
  assert.equal(event.kind, 'out')
  assert.match(event.message, /refused/)
  assert.doesNotMatch(event.message, /secret/)
  assert.ok(Math.abs(Date.now() - event.at.getTime()) < 60_000)
  assert.deepEqual(Object.keys(event).sort(), ['at', 'kind', 'message'])
})

test('a full table is told once, while its limits alone are kept', async () => {
  let count = 0
  const event = await next('memory://', async (limiter) => {
    const limit = limiter.limit('a', '1/d')
    for (let key = 0; key < 1000; key++) if (!(await limit.tryAcquire(`${key}`)).allowed) count++
  })
  assert.equal(event.kind, 'full')
  assert.match(event.message, /max_keys/)
  assert.ok(count > 1)
})

test('two limiters hear of their own', async () => {
  const [away, full] = await Promise.all([
    next('redis://127.0.0.1:1'),
    next('memory://', async (limiter) => {
      const limit = limiter.limit('a', '1/d')
      for (let key = 0; key < 1000; key++) await limit.tryAcquire(`${key}`)
    }),
  ])
  assert.deepEqual([away.kind, full.kind], ['out', 'full'])
})

test('onEvent must be a function', () => {
  assert.throws(() => new Limiter('memory://', { onEvent: /** @type {any} */ ('log') }), TypeError)
})

test('what onEvent throws is an uncaught exception, and calls go on', async () => {
  const { code, out } = await run('listening.mjs', 'throws')
  assert.deepEqual([code, out], [0, 'uncaught: on purpose\nout'])
})

test('listening does not keep the process alive', async () => {
  const { code, out } = await run('listening.mjs', 'idle')
  assert.deepEqual([code, out], [0, ''])
})

test('a worker that listens can end', async () => {
  const path = new URL('programs/listening.mjs', import.meta.url)
  for (let round = 0; round < 5; round++) {
    const worker = new Worker(path, { argv: ['wait'] })
    await once(worker, 'message')
    await worker.terminate()
  }
})
