// A Node process of the load test: promises that each wait their turn, then send.
// node worker.mjs URL SPEC IN_FLIGHT
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Limiter } from 'sluicegate'

const [url, spec, inFlight] = process.argv.slice(2)
const limiter = new Limiter(url, { timeoutMs: 5000, onOutage: 'deny' })
const limit = limiter.limit('pacing', spec)
await limit.peek('target')
console.log('ready')

const now = () => Number(process.hrtime.bigint())
const [line] = await once(process.stdin, 'data')
process.stdin.destroy()
const [start, end] = String(line).split(' ').map(Number)

/** @type {number[]} */
const sends = []
async function sender() {
  await sleep((start - now()) / 1e6)
  for (let left = end - now(); left > 0; left = end - now()) {
    // Refused at once where the turn would come after the end.
    const decision = await limit.acquire('target', { timeoutMs: left / 1e6 })
    if (!decision.allowed) return
    sends.push(now()) // here the request would go out
  }
}
await Promise.all(Array.from({ length: Number(inFlight) }, sender))
limiter.close()
console.log(JSON.stringify(sends))
