// Listens to a limiter whose store is away: `throws` in the listener, is `idle`, or `wait`s.
import { parentPort } from 'node:worker_threads'
import { Limiter } from 'sluicegate'

const [mode] = process.argv.slice(2)
process.on('uncaughtException', (error) => {
  console.log(`uncaught: ${error.message}`)
})

let heard = () => {}
const event = new Promise((resolve) => {
  heard = () => resolve(undefined)
})
const limiter = new Limiter('redis://127.0.0.1:1', {
  onEvent: () => {
    if (mode === 'idle') return
    heard()
    throw new Error('on purpose')
  },
})

if (mode === 'throws') {
  const open = setTimeout(() => {}, 30_000)
  await event
  clearTimeout(open)
  const decision = await limiter.limit('a', '1/s').tryAcquire('k')
  console.log(decision.source === 'outage' ? 'out' : decision.source)
} else if (mode === 'wait') {
  setInterval(() => {}, 1000)
  parentPort?.postMessage('open')
}
