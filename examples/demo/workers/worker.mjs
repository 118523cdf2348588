// A Node process of the demo: node worker.mjs URL SPEC CALLS_PER_SECOND
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Limiter } from 'sluicegate'

const TASKS = 2
const [url, spec, pace] = process.argv.slice(2)
const limiter = new Limiter(url)
const limit = limiter.limit('demo', spec)

// The other workers' clock, in whole milliseconds: what began did so no earlier, and what ended
// no later than a millisecond on. (performance.timeOrigin can be off by more.)
const now = () => Date.now() / 1000
const later = () => (Date.now() + 1) / 1000
const fresh = () => ({
  from: now(),
  /** @type {[started: number, ended: number, source: string][]} */
  admitted: [],
  /** @type {Record<string, number>} */
  refused: {},
  errors: 0,
  /** @type {string | null} */
  error: null,
  longest_ms: 0,
})
let report = fresh()

/**
 * @param {number} started
 * @param {number} took
 * @param {import('sluicegate').Decision | null} decision
 * @param {unknown} [error]
 */
function callEnded(started, took, decision, error) {
  const ended = later()
  report.longest_ms = Math.max(report.longest_ms, took)
  if (decision === null) {
    report.errors += 1
    report.error = String(error)
  } else if (decision.allowed) {
    report.admitted.push([started, ended, decision.source])
  } else {
    report.refused[decision.source] = (report.refused[decision.source] ?? 0) + 1
  }
}

function flush() {
  console.log(JSON.stringify({ ...report, to: later() }))
  report = fresh()
}

let over = false
async function hammer() {
  while (!over) {
    const [started, began] = [now(), performance.now()]
    const took = () => performance.now() - began
    try {
      const decision = await limit.tryAcquire('everyone')
      callEnded(started, took(), decision)
    } catch (error) {
      callEnded(started, took(), null, error)
    }
    await sleep((TASKS * 1000) / Number(pace))
  }
}

// The first line is the word to go; the end of the input, which also comes when the demo dies, to stop.
const input = createInterface({ input: process.stdin })
console.log('{"ready": true}')
await new Promise((go) => input.once('line', go))
input.once('close', () => {
  over = true
})
report = fresh()
const ticker = setInterval(flush, 200)
await Promise.all(Array.from({ length: TASKS }, hammer))
clearInterval(ticker)
limiter.close()
flush()
