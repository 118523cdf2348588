// A Node process of the demo: node worker.mjs URL SPEC CALLS_PER_SECOND
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Limiter } from 'sluicegate'

const TASKS = 2
const [url, spec, pace] = process.argv.slice(2)
const limiter = new Limiter(url)
const limit = limiter.limit('demo', spec)

const now = () => (performance.timeOrigin + performance.now()) / 1000
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

/** @param {number} started @param {import('sluicegate').Decision | null} decision @param {unknown} [error] */
function callEnded(started, decision, error) {
  const ended = now()
  report.longest_ms = Math.max(report.longest_ms, (ended - started) * 1000)
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
  console.log(JSON.stringify({ ...report, to: now() }))
  report = fresh()
}

let over = false
async function hammer() {
  while (!over) {
    const started = now()
    try {
      callEnded(started, await limit.tryAcquire('everyone'))
    } catch (error) {
      callEnded(started, null, error)
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
