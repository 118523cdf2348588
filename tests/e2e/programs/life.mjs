// life.mjs URL SPEC TASKS: for each line of input, does it and prints what came of it as JSON; see life.py.
// "workers N": starts so many workers, one after the other, each with calls in flight when it is terminated.
// "together N": so many workers at once, each with a hundred calls on one key.
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { Limiter } from 'sluicegate'

const [url, spec, given] = isMainThread ? process.argv.slice(2) : workerData.line
const tasks = Number(given)
const limiter = new Limiter(url, { timeoutMs: 10_000 })
const limit = limiter.limit('life', spec)

async function decide(count) {
  let allowed = 0
  const some = async (first) => {
    for (let n = first; n < count; n += tasks) allowed += (await limit.tryAcquire(`key:${n % 100}`)).allowed
  }
  await Promise.all(Array.from({ length: tasks }, (_, n) => some(n)))
  return { allowed }
}

async function limiters(count) {
  let allowed = 0
  for (let n = 0; n < count; n += 1) {
    const other = new Limiter(url, { timeoutMs: 10_000 })
    allowed += (await other.limit('other', '1000000/s').tryAcquire('k')).allowed
    if (n % 2) other.close()
  }
  return { allowed }
}

async function close() {
  const outcomes = {}
  const count = (outcome) => {
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
  }
  const closing = new Limiter(url, { timeoutMs: 5000 })
  const shared = closing.limit('closing', '1000000/s')
  const call = async () => {
    for (;;) {
      try {
        count((await shared.tryAcquire('k')).source)
      } catch (error) {
        return count(error.code?.toLowerCase() ?? String(error))
      }
    }
  }
  const calling = Array.from({ length: tasks }, call)
  await sleep(100)
  closing.close()
  await Promise.all(calling)
  return outcomes
}

const open = (what) =>
  new Worker(new URL(import.meta.url), { workerData: { line: [url, spec, given], what } })
const message = (worker) =>
  new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))

async function workers(count) {
  for (let n = 0; n < count; n += 1) {
    const worker = open('call for ever')
    await message(worker)
    await worker.terminate()
  }
  return { terminated: count }
}

async function together(count) {
  const ended = []
  const running = Array.from({ length: count }, () => {
    const worker = open('a hundred')
    ended.push(new Promise((resolve) => worker.once('exit', resolve)))
    return worker
  })
  const allowed = await Promise.all(running.map(message))
  return { allowed: allowed.reduce((sum, some) => sum + some, 0), codes: await Promise.all(ended) }
}

async function work() {
  if (workerData.what === 'a hundred') {
    const all = await Promise.all(Array.from({ length: 100 }, () => limit.tryAcquire('everyone')))
    parentPort.postMessage(all.filter((decision) => decision.allowed).length)
    return
  }
  await limit.tryAcquire('k')
  parentPort.postMessage('ready')
  for (;;) await Promise.all(Array.from({ length: 50 }, (_, n) => limit.tryAcquire(`key:${n}`)))
}

async function main() {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc')
  const verbs = { decide, limiters, close, workers, together }
  for await (const line of createInterface({ input: process.stdin })) {
    const [verb, count] = line.split(' ')
    const done = await verbs[verb](Number(count))
    // What is collected first may only then let go of something else.
    for (let n = 0; n < 3; n += 1) {
      collect()
      await sleep(1)
    }
    console.log(JSON.stringify(done))
  }
}

await (isMainThread ? main() : work())
