// The scenarios that every language runs, each on every store. tests/scenarios/README.md says what
// the fields mean.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { Limiter, ManualClock } from 'sluicegate'
import { prefix, stores } from './helpers.mjs'

/** @import { Decision, Limit, Permit } from 'sluicegate' */
/** @typedef {Record<string, number | boolean | null>} Expected */
/**
 * @typedef {{
 *   advance_us?: number, verb?: string, limit?: string, key?: string, cost?: number,
 *   timeout_us?: number, max_wait_us?: number, times?: number, as?: string, permit?: string,
 *   entries?: [string, string, number][], spec?: string, expect?: Expected, expect_each?: Expected,
 *   error?: string, error_contains?: string
 * }} Step
 */
/** @typedef {{ name: string, limits: Record<string, string>, steps: Step[] }} Scenario */

const directory = new URL('../../tests/scenarios/', import.meta.url)

/** @param {number | null} ms */
function micros(ms) {
  return ms === null ? null : Math.round(ms * 1000)
}

/** @param {Decision} decision @returns {Expected} */
function measured(decision) {
  return {
    allowed: decision.allowed,
    limit: decision.limit,
    remaining: decision.remaining,
    retry_after_us: micros(decision.retryAfterMs),
    reset_after_us: micros(decision.resetAfterMs),
    wait_us: micros(decision.waitMs),
  }
}

class Run {
  /** @type {Record<string, Limit>} */
  limits = {}
  /** @type {Map<string | symbol, Permit>} */
  permits = new Map()
  clock = new ManualClock()

  /** @param {{ source: string, url: string }} store @param {Scenario} scenario */
  constructor(store, scenario) {
    this.source = store.source
    this.scenario = scenario
    const options = { prefix: prefix(), clock: this.clock, denyCacheMs: 0, timeoutMs: 5000 }
    this.limiter = new Limiter(store.url, options)
    for (const [name, spec] of Object.entries(scenario.limits)) {
      this.limits[name] = this.limiter.limit(name, spec)
    }
  }

  async toEnd() {
    try {
      for (const [index, step] of this.scenario.steps.entries()) {
        await this.step(step, `step ${index + 1}: ${JSON.stringify(step)}`)
      }
    } finally {
      for (const permit of this.permits.values()) permit.release()
      this.limiter.close()
    }
  }

  /** @param {Step} step @param {string} where */
  async step(step, where) {
    this.advance(step.advance_us ?? 0)
    if (step.verb === undefined) return
    if (step.error !== undefined) {
      const code = step.error.toUpperCase()
      const contains = step.error_contains ?? ''
      /** @param {{ code: string, message: string }} error */
      const right = (error) => error.code === code && error.message.includes(contains)
      return assert.rejects(this.call(step), right, where)
    }
    for (let left = step.times ?? 1; left > 0; left--) {
      const answer = await this.call(step)
      if (step.expect_each) this.compare(answer, step.expect_each, where)
      if (step.expect && left === 1) this.compare(answer, step.expect, where)
    }
  }

  /** @param {number} us */
  advance(us) {
    if (us >= 0) this.clock.advance(us / 1000)
    else this.clock.set((Math.round(this.clock.now() * 1000) + us) / 1000)
  }

  /** @param {Decision} decision @param {Expected} expected @param {string} where */
  compare(decision, expected, where) {
    assert.equal(decision.source, this.source, where)
    const all = measured(decision)
    const asked = Object.fromEntries(Object.keys(expected).map((field) => [field, all[field]]))
    assert.deepEqual(asked, expected, where)
  }

  /** @param {Step} step @returns {Promise<any>} */
  async call({ verb, limit: name = 'main', key = 'k', cost = 1, ...step }) {
    const limit = /** @type {Limit} */ (this.limits[name])
    switch (verb) {
      case 'try_acquire':
        return limit.tryAcquire(key, cost)
      case 'acquire':
        return limit.acquire(key, cost, { timeoutMs: Number(step.timeout_us) / 1000 })
      case 'reserve':
        return limit.reserve(key, cost, { maxWaitMs: Number(step.max_wait_us) / 1000 })
      case 'peek':
        return limit.peek(key)
      case 'refund':
        return limit.refund(key, cost)
      case 'reset':
        return limit.reset(key)
      case 'hold': {
        const permit = await limit.hold(key, { timeoutMs: Number(step.timeout_us) / 1000 })
        this.permits.set(step.as ?? Symbol(), permit)
        assert.equal(permit.allowed, permit.decision.allowed)
        return permit.decision
      }
      case 'release':
        return this.permits.get(step.permit ?? '')?.release()
      case 'try_acquire_all':
        return this.limiter.tryAcquireAll(
          (step.entries ?? []).map(([name, key, cost]) => [
            /** @type {Limit} */ (this.limits[name]),
            key,
            cost,
          ]),
        )
      case 'respec':
        this.limits[name] = this.limiter.limit(name, String(step.spec))
        return
      default:
        throw new Error(`no such verb: ${verb}`)
    }
  }
}

const files = readdirSync(directory).filter((file) => file.endsWith('.json') && file !== 'schema.json')
for (const file of files.sort()) {
  /** @type {{ scenarios: Scenario[] }} */
  const { scenarios } = JSON.parse(readFileSync(new URL(file, directory), 'utf8'))
  for (const store of stores) {
    describe(`${file} on ${store.source}`, () => {
      for (const scenario of scenarios) {
        test(scenario.name, { timeout: 60_000 }, () => new Run(store, scenario).toEnd())
      }
    })
  }
}
