// listener.mjs URL: prints what is told, until the store is back.
import { Limiter } from 'sluicegate'

const open = setInterval(() => {}, 1000)
const limiter = new Limiter(process.argv[2], {
  timeoutMs: 5000,
  onEvent: ({ kind }) => {
    console.log(kind)
    if (kind === 'back') {
      limiter.close()
      clearInterval(open)
    }
  },
})
