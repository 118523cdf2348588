'use strict'

const native = require('./native.js')
const clocks = require('./clock.js')
const limits = require('./limit.js')
const { guard, typeError } = require('./error.js')
const { fields } = require('./http.js')
const { options } = require('./options.js')
const { listen, port, promise } = require('./port.js')
const { numbers } = require('./record.js')

class Limiter {
  #native
  #listener

  constructor(url, given = undefined) {
    const known = options(
      given,
      'prefix',
      'timeoutMs',
      'onOutage',
      'denyCacheMs',
      'maxKeys',
      'maxWaiting',
      'clock',
      'onEvent',
    )
    const clock = clocks.within(known.clock)
    const { onEvent } = known
    let number
    if (onEvent !== undefined) {
      if (typeof onEvent !== 'function') throw typeError('onEvent must be a function')
      this.#listener = { onEvent, takeEvents: () => this.#native.takeEvents() }
      number = listen(this.#listener)
    }
    this.#native = guard(() => new native.Limiter(port, url, known, clock, number))
  }

  limit(name, spec, given = undefined) {
    const { onOutage } = options(given, 'onOutage')
    return new limits.Limit(
      guard(() => this.#native.limit(name, spec, onOutage)),
      this.#listener,
    )
  }

  async tryAcquireAll(entries) {
    if (!Array.isArray(entries)) throw typeError('entries must be an array of [limit, key, cost]')
    const within = []
    const keys = []
    const costs = []
    for (const entry of entries) {
      const [limit, key, cost = 1] = Array.isArray(entry) ? entry : []
      within.push(limits.within(limit))
      keys.push(key)
      costs.push(cost)
    }
    return promise(guard(() => this.#native.submitAll(within, keys, costs)))
  }

  httpHeaders(decisions, given = undefined) {
    const { legacy = false } = options(given, 'legacy')
    const [within, cells] = pairs(decisions)
    return fields(guard(() => this.#native.httpHeaders(within, cells, Boolean(legacy))))
  }

  httpProblem(decisions) {
    const [within, cells] = pairs(decisions)
    return guard(() => this.#native.httpProblem(within, cells))
  }

  status() {
    const status = guard(() => this.#native.status())
    return { ...status, since: new Date(status.since), lastError: status.lastError ?? null }
  }

  close() {
    guard(() => this.#native.close())
  }
}

/** The limits of [limit, decision] pairs, and the numbers of the decisions. */
function pairs(decisions) {
  if (!Array.isArray(decisions)) throw typeError('decisions must be an array of [limit, decision]')
  const split = decisions.map((pair) => (Array.isArray(pair) ? pair : []))
  return [split.map(([limit]) => limits.within(limit)), split.flatMap(([, decision]) => numbers(decision))]
}

module.exports = { Limiter }
