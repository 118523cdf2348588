'use strict'

const native = require('./native.js')
const clocks = require('./clock.js')
const limits = require('./limit.js')
const { guard, typeError } = require('./error.js')
const { options } = require('./options.js')
const { port, promise } = require('./port.js')

class Limiter {
  #native

  constructor(url, given = undefined) {
    const known = options(given, 'prefix', 'timeoutMs', 'onOutage', 'denyCacheMs', 'maxKeys', 'clock')
    const clock = clocks.within(known.clock)
    this.#native = guard(() => new native.Limiter(port, url, known, clock))
  }

  limit(name, spec, given = undefined) {
    const { onOutage } = options(given, 'onOutage')
    return new limits.Limit(guard(() => this.#native.limit(name, spec, onOutage)))
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

  status() {
    const status = guard(() => this.#native.status())
    return { ...status, since: new Date(status.since), lastError: status.lastError ?? null }
  }

  close() {
    guard(() => this.#native.close())
  }
}

module.exports = { Limiter }
