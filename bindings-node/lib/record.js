'use strict'

const { words } = require('./native.js')

// The layout is src/record.rs's.
const WIDTH = 7
const SHAPE = { DECISION: 0, HELD: 1, NOT_HELD: 2, DECISIONS: 3, DONE: 4, ERROR: 5 }
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

/** The decisions of a flat list. */
function decisions(numbers) {
  const all = []
  for (let at = 0; at < numbers.length; at += WIDTH - 1) all.push(decision(numbers, at))
  return all
}

module.exports = { SHAPE, WIDTH, decision, decisions, shapeOf }
