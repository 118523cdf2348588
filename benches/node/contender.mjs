// The Node contenders of `make bench`: `node contender.mjs WHO SCENARIO URL`.
// `benches/README.md` has the protocol. A library is imported only where it is measured.
import { once } from 'node:events'
import { createInterface } from 'node:readline'

const IN_FLIGHT = 64
// Both admit every call of a run, and keep their state from one call to the next.
const SPEC = '1/s burst 1000000000'
const PER_HOUR = { points: 1_000_000_000, duration: 3600 }
const MOST = 10_000_000

const latencies = new Float64Array(MOST)
let decisions = 0
let odd = 0

const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`)
const quantile = (sorted, share) =>
  sorted.length > 0 ? sorted[Math.floor((sorted.length - 1) * share)] * 1000 : null

async function serve(run) {
  say({ ready: true })
  for await (const line of createInterface({ input: process.stdin })) {
    const ask = JSON.parse(line)
    await measured(run, ask.warm)
    const warm = { decisions, odd }
    const seconds = await measured(run, ask.seconds)
    const sorted = latencies.subarray(0, Math.min(decisions, MOST)).slice().sort()
    const timed = sorted.at(-1) > 0
    say({
      decisions,
      seconds,
      total: warm.decisions + decisions,
      odd: warm.odd + odd,
      p50_us: timed ? quantile(sorted, 0.5) : null,
      p99_us: timed ? quantile(sorted, 0.99) : null,
    })
  }
  process.exit(0)
}

async function measured(run, seconds) {
  decisions = 0
  odd = 0
  const started = performance.now()
  await run(started + seconds * 1000)
  return (performance.now() - started) / 1000
}

async function sluicegate(url, spec) {
  const { Limiter } = await import('sluicegate')
  const limit = new Limiter(url).limit('bench', spec)
  const until = performance.now() + 10_000
  while ((await limit.tryAcquire('warm-up')).source !== 'redis') {
    if (performance.now() > until) throw new Error('Redis does not decide')
  }
  return limit
}

async function flexible(url, enableAutoPipelining, options) {
  const { Redis } = await import('ioredis')
  const { RateLimiterRedis } = await import('rate-limiter-flexible')
  const storeClient = new Redis(url, { enableAutoPipelining })
  await once(storeClient, 'ready')
  return new RateLimiterRedis({ storeClient, keyPrefix: 'bench', ...options })
}

/** So many calls in flight at any time, each chain of them on a key of its own or on one for all. */
function inFlight({ call, good }, keys) {
  const chain = async (key, end) => {
    let last = performance.now()
    while (last < end) {
      if (!good(await call(key))) odd += 1
      const now = performance.now()
      if (decisions < MOST) latencies[decisions] = now - last
      decisions += 1
      last = now
    }
  }
  const names = Array.from({ length: keys }, (_, key) => `user:${String(key).padStart(5, '0')}`)
  return (end) => Promise.all(Array.from({ length: IN_FLIGHT }, (_, i) => chain(names[i % keys], end)))
}

/** One call after the other, all refused. */
function flood({ call, good }) {
  return async (end) => {
    latencies[0] = 0
    while (performance.now() < end) {
      for (let i = 0; i < 256; i++) if (!good(await call('flooded'))) odd += 1
      decisions += 256
    }
  }
}

const [who, scenario, url] = process.argv.slice(2)
const isFlood = scenario === 'flood'
// A call on a key, and whether what it resolves to is of the kind that is measured.
let contender
if (who === 'sluicegate') {
  const limit = await sluicegate(url, isFlood ? '1/day' : SPEC)
  contender = {
    call: (key) => limit.tryAcquire(key),
    good: isFlood
      ? (decision) => !decision.allowed
      : (decision) => decision.allowed && decision.source === 'redis',
  }
} else if (isFlood) {
  // It says no by rejecting.
  const limiter = await flexible(url, false, { points: 1, duration: 86_400, inMemoryBlockOnConsumed: 1 })
  const refusal = (reason) => reason
  contender = {
    call: (key) => limiter.consume(key).then(() => undefined, refusal),
    good: (reason) => reason !== undefined,
  }
} else {
  const limiter = await flexible(url, who === 'flexible-autopipelining', PER_HOUR)
  contender = { call: (key) => limiter.consume(key), good: (result) => result.remainingPoints > 0 }
}
if (isFlood) {
  await contender.call('flooded')
  await serve(flood(contender))
} else {
  await serve(inFlight(contender, Number(scenario.replace('tasks-', ''))))
}
