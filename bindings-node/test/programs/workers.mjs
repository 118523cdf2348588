// URL TIMES: workers are terminated with calls in flight. The main thread does not load sluicegate
// before, so that the library's end with the worker is tested too; then it does, and still works.
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'

const [url, times] = process.argv.slice(2)
const worker = new URL('worker.mjs', import.meta.url)

/** @param {number} n */
async function once(n) {
  const thread = new Worker(worker, { workerData: { url, prefix: `test-${process.pid}-${n}` } })
  await new Promise((resolve, reject) => thread.once('message', resolve).once('error', reject))
  await sleep(n % 10)
  await thread.terminate()
}

for (let n = 0; n < Number(times); n += 2) await Promise.all([once(n), once(n + 1)])
const { Limiter } = await import('sluicegate')
console.log((await new Limiter(url).limit('after', 'fixed-window 1000/s').acquire('k')).allowed)
