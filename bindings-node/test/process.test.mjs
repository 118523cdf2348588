// How processes and workers end: by themselves when idle, never with a crash.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { run, stores } from './helpers.mjs'

for (const { source, url } of stores) {
  describe(`ends on ${source}`, { timeout: 300_000 }, () => {
    test('an idle limiter lets the process exit', async () => {
      assert.deepEqual(await run('idle.mjs', url), { code: 0, signal: null, out: 'true true' })
    })

    test('a call under way holds the process open', async () => {
      assert.deepEqual(await run('in-flight.mjs', url), { code: 0, signal: null, out: 'true' })
    })

    test('a permit that is lost is given back', async () => {
      assert.deepEqual(await run('collected.mjs', url), { code: 0, signal: null, out: 'true true' })
    })

    test('process.exit with calls in flight', async () => {
      for (const after of [0, 1, 2, 3, 5, 8, 13, 21, 34, 55]) {
        const ends = await Promise.all([run('exit.mjs', url, `${after}`), run('exit.mjs', url, `${after}`)])
        for (const end of ends) assert.deepEqual(end, { code: 7, signal: null, out: '' })
      }
    })

    test('workers that are terminated with calls in flight', async () => {
      assert.deepEqual(await run('workers.mjs', url, '30'), { code: 0, signal: null, out: 'true' })
    })
  })
}
