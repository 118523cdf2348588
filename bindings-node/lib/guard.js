'use strict'

const { RateLimited, typeError } = require('./error.js')
const { options } = require('./options.js')

/** A function that runs `fn` where the limit admits it, and rejects where not. */
function guarded(limit, fn, given) {
  if (typeof fn !== 'function') throw typeError('fn must be a function')
  const { key, cost } = options(given, 'key', 'cost')
  if (key === undefined) throw typeError('a guard needs a key: { key } or { key: (...args) => ... }')
  return async function (...args) {
    const [who, units] = await Promise.all(
      [key, cost].map((value) => (typeof value === 'function' ? value.apply(this, args) : value)),
    )
    const decision = await limit.tryAcquire(who, units)
    if (!decision.allowed) throw new RateLimited(decision)
    return fn.apply(this, args)
  }
}

module.exports = { guarded }
