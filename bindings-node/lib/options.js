'use strict'

const { typeError } = require('./error.js')

/**
 * The options that were given, or none. A name that is not known is a mistake, which must not pass
 * for a default.
 */
function options(given, ...names) {
  if (given === undefined) return {}
  if (given === null || typeof given !== 'object') {
    throw typeError(`options must be an object, got ${given === null ? 'null' : typeof given}`)
  }
  for (const name of Object.keys(given)) {
    if (!names.includes(name)) {
      throw typeError(`there is no option ${JSON.stringify(name)} here, only ${names.join(', ')}`)
    }
  }
  return given
}

/** An AbortSignal, if given. */
function abortSignal(given) {
  if (given === undefined) return undefined
  if (typeof given?.throwIfAborted === 'function') return given
  throw typeError('signal must be an AbortSignal')
}

module.exports = { abortSignal, options }
