// idle.cjs URL: a call that is under way holds the process open until it is answered.
const { Limiter } = require('sluicegate')

const limit = new Limiter(process.argv[2]).limit('idle', '10/s')
limit.tryAcquire('key').then((decision) => console.log(decision.allowed))
