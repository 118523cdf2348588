'use strict'

// Between the binary and promises. A call that is decided at once resolves from the record in the
// first row; the others wait in `calls` for the drain that brings theirs.
const native = require('./native.js')
const { fromNative } = require('./error.js')
const { Permit } = require('./permit.js')
const { SHAPE, WIDTH, decision, shapeOf } = require('./record.js')

const ROWS = 256
const cells = new Float64Array(ROWS * WIDTH)
const calls = new Map()
const port = new native.Port(cells, drain, tell)

function drain() {
  let written
  do {
    written = port.drain()
    for (let row = 0; row < written; row++) settle(row * WIDTH)
  } while (written === ROWS)
}

function settle(at) {
  const call = calls.get(cells[at])
  calls.delete(cells[at])
  if (call.signal !== undefined) unfollow(call.signal, cells[at])
  if (failed(at)) call.reject(fromNative(...port.takeError()))
  else call.resolve(value(at))
}

function failed(at) {
  return shapeOf(cells[at + 1]) === SHAPE.ERROR
}

function value(at) {
  switch (shapeOf(cells[at + 1])) {
    case SHAPE.DECISION:
      return decision(cells, at + 1)
    case SHAPE.HELD:
      return new Permit(decision(cells, at + 1), port.takePermit())
    case SHAPE.NOT_HELD:
      return new Permit(decision(cells, at + 1))
    default:
      return undefined
  }
}

/** The promise of a call that the binary started: 0 for one whose record is there, or its token. */
function promise(token, signal) {
  if (token !== 0) return underWay(token, signal)
  return failed(0) ? Promise.reject(fromNative(...port.takeError())) : Promise.resolve(value(0))
}

function underWay(token, signal) {
  return new Promise((resolve, reject) => {
    calls.set(token, { resolve, reject, signal })
    if (signal !== undefined) follow(signal, token)
  })
}

// The calls that a signal would end, with one listener however many they are.
const followers = new WeakMap()

function follow(signal, token) {
  const follower = followers.get(signal)
  if (follower !== undefined) {
    follower.tokens.add(token)
    return
  }
  const onAbort = () => giveUp(signal)
  followers.set(signal, { tokens: new Set([token]), onAbort })
  signal.addEventListener('abort', onAbort, { once: true })
}

function unfollow(signal, token) {
  const { tokens, onAbort } = followers.get(signal)
  tokens.delete(token)
  if (tokens.size > 0) return
  followers.delete(signal)
  signal.removeEventListener('abort', onAbort)
}

function giveUp(signal) {
  // What is decided already counts: the promise shall say so, instead of losing what was taken.
  drain()
  const tokens = followers.get(signal)?.tokens ?? []
  followers.delete(signal)
  // The last first: a turn can be given back while nobody waits behind it.
  for (const token of [...tokens].reverse()) {
    const call = calls.get(token)
    calls.delete(token)
    port.giveUp(token)
    call.reject(signal.reason)
  }
}

// Who listens to which limiter's events. Kept weakly: a limiter that nothing refers to closes.
const listeners = new Map()
const gone = new FinalizationRegistry((number) => listeners.delete(number))
let lastNumber = 0

/** The number by which the port tells of a listener's events. */
function listen(listener) {
  lastNumber += 1
  listeners.set(lastNumber, new WeakRef(listener))
  gone.register(listener, lastNumber)
  return lastNumber
}

function tell() {
  for (const number of port.takeEventful()) {
    const listener = listeners.get(number)?.deref()
    for (const { kind, at, message } of listener?.takeEvents() ?? []) {
      // On its own, so that what it throws is an uncaught exception and stops no other.
      queueMicrotask(() => listener.onEvent({ kind, at: new Date(at), message }))
    }
  }
}

module.exports = { listen, port, promise }
