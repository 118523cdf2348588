// One module behind both doors: a process that uses both has one set of classes.
import sluicegate from './index.js'

export const { Limit, Limiter, ManualClock, Permit, RateLimited, SluicegateError } = sluicegate
