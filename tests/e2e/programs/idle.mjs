// idle.mjs URL: an idle limiter lets the process end.
import { Limiter } from 'sluicegate'

const limit = new Limiter(process.argv[2]).limit('idle', '10/s')
console.log((await limit.tryAcquire('key')).allowed)
