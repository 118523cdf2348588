'use strict'

const { ManualClock } = require('./lib/clock.js')
const { RateLimited, SluicegateError } = require('./lib/error.js')
const { Limit } = require('./lib/limit.js')
const { Limiter } = require('./lib/limiter.js')
const { Permit } = require('./lib/permit.js')

module.exports = { Limit, Limiter, ManualClock, Permit, RateLimited, SluicegateError }
