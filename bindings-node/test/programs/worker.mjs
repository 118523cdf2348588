// A worker of workers.mjs: has calls in flight until it is terminated.
import { parentPort, workerData } from 'node:worker_threads'
import { Limiter } from 'sluicegate'

const limiter = new Limiter(workerData.url, { prefix: workerData.prefix })
const paced = limiter.limit('paced', '2000/s burst 1')
const window = limiter.limit('window', 'fixed-window 1000000/s')
const jobs = limiter.limit('jobs', 'concurrency 5 ttl 1s')
await window.acquire('k')
parentPort?.postMessage('ready')
for (let n = 0; n < 100; n++) {
  paced.acquire('k', { timeoutMs: 60_000 })
  jobs.hold('k').then((permit) => setImmediate(() => permit.release()))
}
for (;;) await Promise.all(Array.from({ length: 100 }, (_, n) => window.acquire(`k${n}`)))
