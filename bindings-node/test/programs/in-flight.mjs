// URL: a call under way holds the process open until it is answered.
import { Limiter } from 'sluicegate'

const limit = new Limiter(process.argv[2], { prefix: `test-${process.pid}-${Date.now()}` }).limit(
  'a',
  '1/300ms',
)
await limit.tryAcquire('k')
limit.acquire('k').then((decision) => console.log(decision.allowed))
