'use strict'

const native = require('./native.js')
const { guard, typeError } = require('./error.js')

class ManualClock {
  #native

  constructor(startMs) {
    this.#native = guard(() => new native.ManualClock(startMs))
  }

  advance(ms) {
    guard(() => this.#native.advance(ms))
  }

  set(ms) {
    guard(() => this.#native.set(ms))
  }

  now() {
    return this.#native.now()
  }

  /** The binary's clock within, if given; for this package alone. */
  static within(clock) {
    if (clock === undefined) return undefined
    if (typeof clock === 'object' && clock !== null && #native in clock) return clock.#native
    throw typeError('clock must be a ManualClock')
  }
}

const { within } = ManualClock
delete ManualClock.within

module.exports = { ManualClock, within }
