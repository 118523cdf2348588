// load.mjs URL PREFIX SPEC ON_OUTAGE TIMEOUT_MS TASKS PAUSE_US KEYS async: calls all the time.
// What it reads and prints is said in load.py.
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Limiter } from 'sluicegate'

const [url, prefix, spec, onOutage, timeoutMs, tasks, pauseUs, keys] = process.argv.slice(2)
const limiter = new Limiter(url, { prefix, onOutage, timeoutMs: Number(timeoutMs) })
const limit = limiter.limit('load', spec)
const calls = []
let over = false

// CLOCK_MONOTONIC, as in the other languages.
const now = () => Number(process.hrtime.bigint() / 1000n)

async function callAllTheTime(first) {
  for (let key = first; !over; ) {
    key = (key + 1) % Number(keys)
    const started = now()
    let outcome
    try {
      const { allowed, source } = await limit.tryAcquire(`key:${key}`)
      outcome = (allowed ? '' : '-') + source
    } catch (error) {
      outcome = `!${error.code?.toLowerCase() ?? error}`
    }
    calls.push([started, now(), key, outcome])
    await sleep(Number(pauseUs) / 1000)
  }
}

const input = createInterface({ input: process.stdin })
console.log('ready')
await new Promise((go) => input.once('line', go))
input.once('close', () => {
  over = true
})
await Promise.all(Array.from({ length: Number(tasks) }, (_, n) => callAllTheTime(n)))
limiter.close()
console.log(JSON.stringify(calls))
