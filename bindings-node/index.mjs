// One module behind both doors: a process that uses both has one set of classes.
import sluicegate from './index.js'

export const {
  ClientAddress,
  HTTP_PROBLEM_CONTENT_TYPE,
  HTTP_STATUS,
  Limit,
  Limiter,
  ManualClock,
  Permit,
  RateLimited,
  SluicegateError,
} = sluicegate
