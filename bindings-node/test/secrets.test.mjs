// No password in an error, in what inspect shows, in a status or an event, whatever the URL looks like.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import { Limiter, SluicegateError } from 'sluicegate'
import { stores } from './helpers.mjs'

/** @type {{ url: string, secret: string }[]} */
const cases = JSON.parse(readFileSync(new URL('../../tests/secrets.json', import.meta.url), 'utf8'))

/** @param {unknown} value */
function shown(value) {
  return `${inspect(value, { depth: 9, showHidden: true, getters: true })} ${JSON.stringify(value)} ${value}`
}

/** @param {unknown} error */
function ofError(error) {
  assert.ok(error instanceof SluicegateError, String(error))
  return `${shown(error)} ${error.message} ${error.stack} ${shown(error.cause)}`
}

/**
 * All that a program can be told of a limiter with this URL.
 *
 * @param {string} url
 */
async function told(url) {
  /** @type {string[]} */
  const parts = []
  /** @type {Limiter} */
  let limiter
  const onEvent = (/** @type {unknown} */ event) => parts.push(shown(event))
  try {
    limiter = new Limiter(url, { onOutage: 'raise', timeoutMs: 500, denyCacheMs: 0, onEvent })
  } catch (error) {
    return ofError(error)
  }
  const limit = limiter.limit('secrets', '1/s')
  await assert.rejects(limit.tryAcquire('k'), (error) => {
    parts.push(ofError(error))
    return true
  })
  const until = Date.now() + 20_000
  while (limiter.status().lastError === null || parts.length < 2) {
    assert.ok(Date.now() < until, 'no error and no event came')
    await sleep(2)
  }
  parts.push(shown(limiter), shown(limit), shown(limiter.status()))
  limiter.close()
  return parts.join(' ')
}

describe('passwords', () => {
  for (const [number, { url, secret }] of cases.entries()) {
    test(`URL ${number}`, async () => {
      assert.ok(!(await told(url)).includes(secret))
    })
  }
  const redis = stores.find(({ source }) => source === 'redis')?.url
  test('a refused one', { skip: redis === undefined }, async () => {
    const text = await told(String(redis).replace('redis://', 'redis://nobody:hunter2@'))
    assert.match(text, /WRONGPASS/)
    assert.doesNotMatch(text, /hunter2/)
  })
})
