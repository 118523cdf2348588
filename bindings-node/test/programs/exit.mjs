// URL AFTER: process.exit with calls in flight, some waiting and some being answered.
import { Limiter } from 'sluicegate'

const [url, after] = process.argv.slice(2)
const limiter = new Limiter(url, { prefix: `test-${process.pid}-${Date.now()}` })
const paced = limiter.limit('paced', '2000/s burst 1')
const window = limiter.limit('window', 'fixed-window 1000000/s')
const jobs = limiter.limit('jobs', 'concurrency 5 ttl 1s')
for (let n = 0; n < 100; n++) {
  paced.acquire('k', { timeoutMs: 60_000 })
  jobs.hold('k').then((permit) => setImmediate(() => permit.release()))
}
setTimeout(() => process.exit(7), Number(after))
for (;;) await Promise.all(Array.from({ length: 100 }, (_, n) => window.acquire(`k${n}`)))
