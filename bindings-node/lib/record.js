'use strict'

const { words } = require('./native.js')
const { typeError } = require('./error.js')

// The layout is src/record.rs's.
const WIDTH = 7
const SHAPE = { DECISION: 0, HELD: 1, NOT_HELD: 2, DONE: 3, ERROR: 4 }
const { sources } = words()

/** What kind of answer the record is whose tag this is. */
function shapeOf(tag) {
  return tag >> 8
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
    rule: (tag >> 4) & 15,
  }
}

/** The tag and the numbers of a decision, as the binary reads them back. */
function numbers(decision) {
  if (typeof decision !== 'object' || decision === null) throw typeError('decision must be a decision')
  const { allowed, limit, remaining, retryAfterMs, resetAfterMs, waitMs, source, rule } = decision
  const place = sources.indexOf(source)
  const tag = (rule << 4) | (allowed ? 8 : 0) | place
  const cells = [tag, limit, remaining, retryAfterMs ?? -1, resetAfterMs, waitMs]
  const whole = cells.every((cell) => typeof cell === 'number')
  if (!whole || place < 0 || !(rule >= 0 && rule < 16))
    throw typeError('decision must be a decision of a limit')
  return cells
}

module.exports = { SHAPE, WIDTH, decision, numbers, shapeOf }
