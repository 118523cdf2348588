'use strict'

const { Gate, besides, nodeClient } = require('./shared.js')

function rateLimit(given) {
  const gate = new Gate(given, (context, name) => nodeClient(context.req, name))
  return async function rateLimit(context, next) {
    const verdict = await gate.decide(context)
    for (const [name, value] of Object.entries(verdict?.headers ?? {})) {
      context.set(name, besides(name, value, context.response.get(name)))
    }
    if (verdict?.refusal === undefined) return next()
    const { status, contentType, body } = verdict.refusal
    context.status = status
    context.type = contentType
    context.body = body
  }
}

module.exports = { rateLimit }
