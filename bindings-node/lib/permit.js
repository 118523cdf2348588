'use strict'

class Permit {
  #native

  constructor(decision, native) {
    this.decision = decision
    this.#native = native
  }

  get allowed() {
    return this.decision.allowed
  }

  release() {
    const held = this.#native
    this.#native = undefined
    held?.release()
  }
}

// Older releases of Node 18 and 20 have no such symbols, but a polyfill may have brought them.
const dispose = Symbol.dispose ?? Symbol.for('Symbol.dispose')
const asyncDispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')

function method(name, value) {
  Object.defineProperty(Permit.prototype, name, { value, configurable: true, writable: true })
}
method(dispose, function () {
  this.release()
})
method(asyncDispose, async function () {
  this.release()
})

module.exports = { Permit }
