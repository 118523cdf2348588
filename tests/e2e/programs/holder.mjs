// holder.mjs URL SPEC TASKS: tasks that hold a permit for a moment, again and again, until the input ends.
//
// With 0 tasks it holds one permit for good. Prints `enter ID TIME` once a permit is held and
// `exit ID TIME` before it is released, in nanoseconds of CLOCK_MONOTONIC.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Limiter } from 'sluicegate'

const [url, spec, tasks] = process.argv.slice(2)
const limiter = new Limiter(url, { timeoutMs: 5000, onOutage: 'deny' })
const limit = limiter.limit('seats', spec)
let over = false

const say = (word, held) => console.log(`${word} ${held} ${process.hrtime.bigint()}`)

async function holdOften(_, task) {
  for (let number = 1; !over; number += 1) {
    const permit = await limit.hold('everyone', { timeoutMs: 500 })
    if (permit.allowed) {
      const held = `${process.pid}.${task}.${number}`
      say('enter', held)
      await sleep(20 + 180 * Math.random())
      say('exit', held)
      permit.release()
    }
  }
}

let forGood
if (tasks === '0') {
  forGood = await limit.hold('everyone', { timeoutMs: 10_000 })
  if (!forGood.allowed) throw new Error('no permit')
  say('enter', String(process.pid))
}
const running = Array.from({ length: Number(tasks) }, holdOften)
process.stdin.resume()
await once(process.stdin, 'end')
over = true
await Promise.all(running)
forGood?.release()
limiter.close()
