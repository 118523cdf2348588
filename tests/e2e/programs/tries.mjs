// tries.mjs URL SPEC TIMES: waits for a line of input, then tries; prints how many were admitted, and the
// sources of all decisions.
import { once } from 'node:events'
import { Limiter } from 'sluicegate'

const [url, spec, times] = process.argv.slice(2)
const limit = new Limiter(url, { timeoutMs: 10_000 }).limit('tries', spec)
await once(process.stdin, 'data')
process.stdin.destroy()
let admitted = 0
const sources = {}
async function some() {
  for (let n = 0; n < times / 10; n += 1) {
    const { allowed, source } = await limit.tryAcquire('everyone')
    admitted += allowed
    sources[source] = (sources[source] ?? 0) + 1
  }
}
// Ten at a time: calls in flight together, as in a server.
await Promise.all(Array.from({ length: 10 }, some))
console.log(admitted, ...Object.entries(sources).map(([source, n]) => `${source}=${n}`))
