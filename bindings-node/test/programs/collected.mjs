// URL: a permit that nobody can reach any more is given back by the garbage collector.
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Limiter } from 'sluicegate'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc')
const limiter = new Limiter(process.argv[2], { prefix: `test-${process.pid}-${Date.now()}`, timeoutMs: 5000 })
const jobs = limiter.limit('jobs', 'concurrency 1 ttl 1h')

async function lose() {
  return (await jobs.hold('k')).allowed
}
const first = await lose()
let second = false
for (let n = 0; n < 1000 && !second; n++) {
  await sleep(10)
  collect()
  second = (await jobs.hold('k', { timeoutMs: 0 })).allowed
}
console.log(first, second)
