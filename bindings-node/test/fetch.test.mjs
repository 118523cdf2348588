// A fetch that waits its turn; what it calls is a function of the test's.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Limiter, ManualClock, RateLimited } from 'sluicegate'

const load = createRequire(import.meta.url)
const { rateLimitedFetch } = load('../frameworks/fetch.js')

/** @param {(url: string) => Response} [answer] */
function provider(answer = () => new Response('well')) {
  /** @type {string[]} */
  const calls = []
  const fetch = async (/** @type {any} */ input) => {
    calls.push(String(input.url ?? input))
    return answer(String(input.url ?? input))
  }
  return { calls, fetch }
}

test('each host has its own turns; who would come too late is refused and not sent', async () => {
  const limit = new Limiter('memory://', { clock: new ManualClock() }).limit('a', '1/m')
  const { calls, fetch } = provider()
  const limited = rateLimitedFetch({ limit, fetch, timeoutMs: 1000 })
  assert.equal(await (await limited('https://a.example/1')).text(), 'well')
  assert.equal((await limited(new URL('https://b.example/1'))).status, 200)
  assert.equal((await limited(new Request('https://a.example:8443/1'))).status, 200)
  await assert.rejects(limited('https://a.example/2'), (error) => {
    assert.ok(error instanceof RateLimited)
    assert.equal(error.decision.retryAfterMs, 60_000)
    return true
  })
  assert.deepEqual(calls, ['https://a.example/1', 'https://b.example/1', 'https://a.example:8443/1'])
})

test('it waits, and is called no sooner than the limit admits', async () => {
  const limit = new Limiter().limit('a', 'leaky-bucket 20/s queue 100')
  const { calls, fetch } = provider()
  const limited = rateLimitedFetch({ limit, fetch })
  const started = performance.now()
  await Promise.all(Array.from({ length: 6 }, (_, n) => limited(`https://a.example/${n}`)))
  assert.ok(performance.now() - started >= 250 - 1)
  assert.equal(calls.length, 6)
})

test('a signal gives the turn back, in a request as well', async () => {
  const limit = new Limiter('memory://', { clock: new ManualClock() }).limit('a', '1/m')
  const { calls, fetch } = provider()
  const limited = rateLimitedFetch({ limit, fetch })
  await limited('https://a.example/')
  const why = new Error('why')
  for (const call of [
    (/** @type {AbortSignal} */ signal) => limited('https://a.example/', { signal }),
    (/** @type {AbortSignal} */ signal) => limited(new Request('https://a.example/', { signal })),
  ]) {
    const controller = new AbortController()
    const waiting = call(controller.signal)
    await sleep(20)
    controller.abort(why)
    await assert.rejects(waiting, (error) => error === why)
    await assert.rejects(
      async () => call(AbortSignal.abort(why)),
      (error) => error === why,
    )
  }
  assert.equal(calls.length, 1)
})

test('what a provider asks for is heeded, if so said, for as long as said', async () => {
  const limit = new Limiter().limit('a', '1000/s')
  const { calls, fetch } = provider((url) =>
    url.endsWith('/busy')
      ? new Response('', { status: 429, headers: { 'Retry-After': '3600' } })
      : new Response(''),
  )
  const heedless = rateLimitedFetch({ limit, fetch })
  await heedless('https://a.example/busy')
  await heedless('https://a.example/')

  const heeding = rateLimitedFetch({ limit, fetch, heedRetryAfterMs: 300, timeoutMs: 10_000 })
  const impatient = rateLimitedFetch({ limit, fetch, heedRetryAfterMs: 60_000, timeoutMs: 100 })
  const started = performance.now()
  assert.equal((await heeding('https://a.example/busy')).status, 429)
  await heeding('https://b.example/')
  await Promise.all([heeding('https://a.example/'), heeding('https://a.example/')])
  assert.ok(performance.now() - started >= 299)

  await impatient('https://c.example/busy')
  const sent = calls.length
  await assert.rejects(impatient('https://c.example/'), (error) => {
    assert.ok(error instanceof RateLimited)
    const { allowed, retryAfterMs } = error.decision
    assert.ok(!allowed && retryAfterMs !== null && retryAfterMs > 50_000 && retryAfterMs <= 60_000)
    return true
  })
  assert.equal(calls.length, sent)
  const controller = new AbortController()
  const patient = rateLimitedFetch({ limit, fetch, heedRetryAfterMs: 60_000 })
  await patient('https://c.example/busy')
  const waiting = patient('https://c.example/', { signal: controller.signal })
  await sleep(20)
  controller.abort(new Error('why'))
  await assert.rejects(waiting, { message: 'why' })
})

test('a Retry-After that is a date, and nonsense', async () => {
  const limit = new Limiter().limit('a', '1000/s')
  let said = new Date(Date.now() + 3_600_000).toUTCString()
  const { fetch } = provider(() => new Response('', { status: 503, headers: { 'Retry-After': said } }))
  const limited = rateLimitedFetch({ limit, fetch, heedRetryAfterMs: 60_000, timeoutMs: 10 })
  await limited('https://a.example/')
  await assert.rejects(limited('https://a.example/'), RateLimited)
  for (said of ['soon', '-5', '', 'Thu, 01 Jan 1970 00:00:00 GMT']) {
    await limited('https://b.example/')
    await limited('https://b.example/')
  }
})

test('a pause that begins while calls wait holds them as well, and they keep their pace after it', async () => {
  const limit = new Limiter().limit('a', 'leaky-bucket 20/s queue 100')
  /** @type {number[]} */
  const times = []
  let answers = 0
  const fetch = async () => {
    times.push(performance.now())
    answers += 1
    return answers === 1
      ? new Response('', { status: 429, headers: { 'Retry-After': '1' } })
      : new Response('')
  }
  const limited = rateLimitedFetch({ limit, fetch, heedRetryAfterMs: 400 })
  await Promise.all(Array.from({ length: 4 }, () => limited('https://a.example/')))
  const [first = 0, second = 0, , last = 0] = times
  assert.ok(second - first >= 399)
  assert.ok(last - second >= 50)
})

test('bad options and what fails', async () => {
  const limit = new Limiter().limit('a', '1/s')
  for (const options of [
    undefined,
    {},
    { limit: '1/s' },
    { limit, fetch: 1 },
    { limit, timeoutMs: '1' },
    { limit, heedRetryAfterMs: -1 },
    { limit, heedRetryAfterMs: Number.NaN },
    { limit, heedRetryAfterMs: 2 ** 31 },
    { limit, unknown: 1 },
  ]) {
    assert.throws(() => rateLimitedFetch(options), TypeError)
  }
  await assert.rejects(rateLimitedFetch({ limit })('/relative'), TypeError)
  await assert.rejects(rateLimitedFetch({ limit: () => undefined })('https://a.example/'), TypeError)
  await assert.rejects(rateLimitedFetch({ limit, timeoutMs: -1 })('https://a.example/'), { code: 'ARGUMENT' })
})
