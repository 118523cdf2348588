// tries.mjs URL SPEC TIMES: waits for a line of input, then prints how many tries were admitted.
import { once } from 'node:events'
import { Limiter } from 'sluicegate'

const [url, spec, times] = process.argv.slice(2)
const limit = new Limiter(url, { timeoutMs: 10_000 }).limit('tries', spec)
await once(process.stdin, 'data')
process.stdin.destroy()
// Ten at a time: calls in flight together, as in a server.
let admitted = 0
async function some() {
  for (let n = 0; n < times / 10; n += 1) admitted += (await limit.tryAcquire('everyone')).allowed
}
await Promise.all(Array.from({ length: 10 }, some))
console.log(admitted)
