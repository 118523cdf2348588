'use strict'

/** An object of names and values that come in turn. */
function fields(flat) {
  const headers = {}
  for (let at = 0; at < flat.length; at += 2) headers[flat[at]] = flat[at + 1]
  return headers
}

module.exports = { fields }
