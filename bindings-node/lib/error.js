'use strict'

const { words } = require('./native.js')

const codes = new Set(words().codes)

class SluicegateError extends Error {
  constructor(code, message, options) {
    super(message, options)
    this.code = code
  }
}
SluicegateError.prototype.name = 'SluicegateError'

class RateLimited extends SluicegateError {
  constructor(decision, message = 'rate limited') {
    super('RATE_LIMITED', message)
    this.decision = decision
  }
}
RateLimited.prototype.name = 'RateLimited'

/** A value of a type that has no meaning for the argument. */
function typeError(message) {
  return Object.assign(new TypeError(message), { code: 'ARGUMENT' })
}

/** What the binary says is wrong, as this package throws it. */
function fromNative(code, message, cause) {
  if (code === 'TYPE') return typeError(message)
  if (codes.has(code)) return new SluicegateError(code, message)
  return new SluicegateError('INTERNAL', message, { cause })
}

/** Runs what may throw an error of the binary's. */
function guard(run) {
  try {
    return run()
  } catch (error) {
    throw fromNative(error.code, error.message, error)
  }
}

module.exports = { RateLimited, SluicegateError, fromNative, guard, typeError }
