// URL: uses a limiter, leaves it open, and ends: an idle limiter lets the process exit.
import { Limiter } from 'sluicegate'

const limiter = new Limiter(process.argv[2], { prefix: `test-${process.pid}-${Date.now()}`, timeoutMs: 5000 })
const limit = limiter.limit('idle', '10/s')
const jobs = limiter.limit('jobs', 'concurrency 1 ttl 1m')
// Through the event loop and back.
await limiter.limit('window', 'fixed-window 10/s').acquire('k')
const permit = await jobs.hold('k')
console.log((await limit.tryAcquire('k')).allowed, permit.allowed)
