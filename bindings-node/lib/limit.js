'use strict'

const binary = require('./native.js')
const { guard, typeError } = require('./error.js')
const { abortSignal, options } = require('./options.js')
const { guarded } = require('./guard.js')
const { promise } = require('./port.js')
const { fields } = require('./http.js')
const { numbers } = require('./record.js')

const { Verb } = binary

// Whoever has a limit hears of its limiter's events, even if nothing else refers to the limiter.
const listeners = new WeakMap()

class Limit {
  #native
  #submit

  constructor(native, listener = undefined) {
    if (!(native instanceof binary.Limit)) throw typeError('a limit is made by limiter.limit(name, spec)')
    this.#native = native
    listeners.set(this, listener)
    this.#submit = native.submitter()
    this.name = native.name
    this.spec = native.spec
    Object.freeze(this)
  }

  tryAcquire(key, cost = 1) {
    return promise(this.#submit(Verb.TryAcquire, key, cost, undefined))
  }

  acquire(key, cost = 1, given = undefined) {
    return this.#wait(Verb.Acquire, 'timeoutMs', key, ...sorted(cost, given))
  }

  reserve(key, cost = 1, given = undefined) {
    return this.#wait(Verb.Reserve, 'maxWaitMs', key, ...sorted(cost, given))
  }

  peek(key) {
    return promise(this.#submit(Verb.Peek, key, undefined, undefined))
  }

  refund(key, cost = 1) {
    return promise(this.#submit(Verb.Refund, key, cost, undefined))
  }

  reset(key) {
    return promise(this.#submit(Verb.Reset, key, undefined, undefined))
  }

  hold(key, given = undefined) {
    return this.#wait(Verb.Hold, 'timeoutMs', key, 1, given)
  }

  httpHeaders(decision, given = undefined) {
    const { legacy = false } = options(given, 'legacy')
    const cells = numbers(decision)
    return fields(guard(() => this.#native.httpHeaders(cells, Boolean(legacy))))
  }

  httpProblem(decision) {
    const cells = numbers(decision)
    return guard(() => this.#native.httpProblem(cells))
  }

  guard(fn, given) {
    return guarded(this, fn, given)
  }

  #wait(verb, longest, key, cost, given) {
    try {
      const { [longest]: wait, signal } = options(given, longest, 'signal')
      abortSignal(signal)?.throwIfAborted()
      return promise(this.#submit(verb, key, cost, wait), signal)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** The binary's limit within; for this package alone. */
  static within(limit) {
    if (typeof limit === 'object' && limit !== null && #native in limit) return limit.#native
    throw typeError('an entry must be [limit, key, cost]')
  }
}

/** The cost may be left out before the options. */
function sorted(cost, given) {
  const left = given === undefined && typeof cost === 'object' && cost !== null
  return left ? [1, cost] : [cost, given]
}

const { within } = Limit
delete Limit.within

module.exports = { Limit, within }
