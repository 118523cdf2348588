'use strict'

const { ClientAddress } = require('./lib/address.js')
const { ManualClock } = require('./lib/clock.js')
const { RateLimited, SluicegateError } = require('./lib/error.js')
const { Limit } = require('./lib/limit.js')
const { Limiter } = require('./lib/limiter.js')
const { Permit } = require('./lib/permit.js')
const { words } = require('./lib/native.js')

const { httpStatus: HTTP_STATUS, httpProblemContentType: HTTP_PROBLEM_CONTENT_TYPE } = words()

module.exports = {
  ClientAddress,
  HTTP_PROBLEM_CONTENT_TYPE,
  HTTP_STATUS,
  Limit,
  Limiter,
  ManualClock,
  Permit,
  RateLimited,
  SluicegateError,
}
