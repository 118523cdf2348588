'use strict'

const { words } = require('./native.js')

// The layout is src/record.rs's.
const WIDTH = 7
const SHAPE = { DECISION: 0, HELD: 1, NOT_HELD: 2, DONE: 3, ERROR: 4 }
const { sources } = words()

/** What kind of answer the record is whose tag this is. */
function shapeOf(tag) {
  return tag >> 4
}

/** The decision whose tag stands at `at`. */
function decision(cells, at) {
  const tag = cells[at]
  const retryAfterMs = cells[at + 3]
  return {
    allowed: (tag & 8) !== 0,
    limit: cells[at + 1],
    remaining: cells[at + 2],
    retryAfterMs: retryAfterMs < 0 ? null : retryAfterMs,
    resetAfterMs: cells[at + 4],
    waitMs: cells[at + 5],
    source: sources[tag & 7],
  }
}

module.exports = { SHAPE, WIDTH, decision, shapeOf }
