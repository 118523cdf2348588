'use strict'

const { setTimeout: sleep } = require('node:timers/promises')
const { Limit, RateLimited } = require('../index.js')
const { typeError } = require('../lib/error.js')
const { options } = require('../lib/options.js')

// Node's timers hold no more.
const LONGEST_MS = 2 ** 31 - 1
const MOST_PAUSES = 10_000
const HEEDED = new Set([429, 503])

function rateLimitedFetch(given) {
  const {
    limit,
    key = host,
    cost,
    timeoutMs,
    heedRetryAfterMs = 0,
    fetch,
  } = options(given, 'limit', 'key', 'cost', 'timeoutMs', 'heedRetryAfterMs', 'fetch')
  if (typeof limit !== 'function' && !(limit instanceof Limit)) throw notALimit(limit)
  if (typeof heedRetryAfterMs !== 'number' || !(heedRetryAfterMs >= 0 && heedRetryAfterMs <= LONGEST_MS)) {
    throw typeError(`heedRetryAfterMs must be a number from 0 to ${LONGEST_MS}, got ${heedRetryAfterMs}`)
  }
  if (timeoutMs !== undefined && typeof timeoutMs !== 'number') {
    throw typeError(`timeoutMs must be a number, got ${typeof timeoutMs}`)
  }
  if (fetch !== undefined && typeof fetch !== 'function') throw typeError('fetch must be a function')
  const pauses = new Pauses()

  return async function rateLimitedFetch(input, init = undefined) {
    const signal = init?.signal ?? input?.signal ?? undefined
    signal?.throwIfAborted()
    const [to, who, units] = await Promise.all(
      [limit, key, cost].map((value) => (typeof value === 'function' ? value(input, init) : value)),
    )
    if (!(to instanceof Limit)) throw notALimit(to)
    await turn(to, who, units, { timeoutMs, signal }, pauses)
    const response = await (fetch ?? globalThis.fetch)(input, init)
    if (heedRetryAfterMs > 0 && HEEDED.has(response.status)) {
      pauses.add(who, Math.min(retryAfterMs(response.headers.get('retry-after')), heedRetryAfterMs))
    }
    return response
  }
}

/** Waits for a turn that comes in no pause. */
async function turn(limit, key, cost, { timeoutMs, signal }, pauses) {
  const until = timeoutMs === undefined ? undefined : performance.now() + timeoutMs
  for (;;) {
    // A negative time is for the limit to refuse.
    const left = until === undefined ? undefined : Math.max(Math.min(0, timeoutMs), until - performance.now())
    const pause = pauses.left(key)
    if (pause > 0) {
      if (left !== undefined && pause > left) await refusePaused(limit, key, pause)
      await sleep(pause, undefined, { signal }).catch((error) => {
        signal?.throwIfAborted()
        throw error
      })
      continue
    }
    const decision = await limit.acquire(key, cost, { timeoutMs: left, signal })
    if (!decision.allowed) throw new RateLimited(decision)
    if (pauses.left(key) === 0) return
    // The pause began while this call waited. Were its turn kept, all who wait would go at once when it ends.
    await limit.refund(key, cost)
  }
}

async function refusePaused(limit, key, pause) {
  const decision = { ...(await limit.peek(key)), allowed: false, retryAfterMs: pause }
  throw new RateLimited(decision, 'rate limited by the server that is called')
}

/** Until when which keys are not called, because the other side said so. */
class Pauses {
  #until = new Map()

  add(key, ms) {
    if (!(ms > 0)) return
    const name = nameOf(key)
    const until = Math.max(performance.now() + ms, this.#until.get(name) ?? 0)
    this.#until.delete(name)
    this.#until.set(name, until)
    if (this.#until.size > MOST_PAUSES) this.#drop()
  }

  left(key) {
    const until = this.#until.get(nameOf(key))
    if (until === undefined) return 0
    const left = until - performance.now()
    if (left > 0) return left
    this.#until.delete(nameOf(key))
    return 0
  }

  /** Drops what is over, or else the oldest. */
  #drop() {
    const now = performance.now()
    for (const [name, until] of this.#until) if (until <= now) this.#until.delete(name)
    if (this.#until.size > MOST_PAUSES) this.#until.delete(this.#until.keys().next().value)
  }
}

/** Bytes and the text that they are the UTF-8 of are one key. */
function nameOf(key) {
  return Buffer.from(key).toString('latin1')
}

/** The milliseconds that a Retry-After says, which is seconds or a date; 0 for none and for nonsense. */
function retryAfterMs(value) {
  if (value === null) return 0
  if (/^\s*\d+\s*$/.test(value)) return Number(value) * 1000
  const at = Date.parse(value)
  return Number.isNaN(at) ? 0 : Math.max(0, at - Date.now())
}

function host(input) {
  return new URL(input?.url ?? input).host
}

function notALimit(limit) {
  return typeError(`limit must be a Limit or a function that returns one, got ${typeof limit}`)
}

module.exports = { rateLimitedFetch }
