'use strict'

// Only what every request and response of Node's has is used, so this needs no Express.
const { Gate, besides, nodeClient } = require('./shared.js')

function rateLimit(given) {
  const gate = new Gate(given, nodeClient)
  return async function rateLimit(request, response, next) {
    try {
      const verdict = await gate.decide(request)
      for (const [name, value] of Object.entries(verdict?.headers ?? {})) {
        response.setHeader(name, besides(name, value, response.getHeader(name)))
      }
      if (verdict?.refusal) {
        const { status, contentType, body } = verdict.refusal
        response.statusCode = status
        response.setHeader('Content-Type', contentType)
        response.end(body)
        return
      }
    } catch (error) {
      next(error)
      return
    }
    next()
  }
}

module.exports = { rateLimit }
