// waiter.mjs URL SPEC: `join N` has waiter N wait its turn, `cancel N` has it give up.
//
// Prints `ready`, and `N TIME` for each waiter whose turn came, in nanoseconds of CLOCK_MONOTONIC. Ends when its
// input has ended and nobody waits any more.
import { createInterface } from 'node:readline'
import { Limiter } from 'sluicegate'

const [url, spec] = process.argv.slice(2)
const limit = new Limiter(url, { timeoutMs: 10_000 }).limit('queue', spec)
const cancels = new Map()

async function wait(number, signal) {
  try {
    const decision = await limit.acquire('everyone', { signal })
    if (!decision.allowed) throw new Error('refused')
    console.log(`${number} ${process.hrtime.bigint()}`)
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

await limit.peek('nobody')
console.log('ready')
for await (const line of createInterface({ input: process.stdin })) {
  const [verb, number] = line.split(' ')
  if (verb === 'join') {
    const cancel = new AbortController()
    cancels.set(number, cancel)
    wait(number, cancel.signal)
  } else {
    cancels.get(number).abort()
  }
}
