'use strict'

const { Gate, LISTS, besides } = require('./shared.js')
const { typeError } = require('../lib/error.js')

function rateLimit(given) {
  const gate = new Gate(given, client)
  return async function rateLimit(context, next) {
    const verdict = await gate.decide(context)
    if (verdict?.refusal) {
      const { status, contentType, body } = verdict.refusal
      return context.body(body, status, { ...verdict.headers, 'Content-Type': contentType })
    }
    await next()
    // Only now: a handler that makes its own Response would leave out what was set before.
    for (const [name, value] of Object.entries(verdict?.headers ?? {})) {
      const there = context.res.headers.get(name)
      if (!there || LISTS.has(name)) context.header(name, besides(name, value, there))
    }
  }
}

/** The peer as @hono/node-server tells it, and a header. */
function client(context, name) {
  const incoming = (context.env?.server ?? context.env)?.incoming
  // One key for all clients would be worse than an error.
  if (incoming === undefined)
    throw typeError('there is no client address here (@hono/node-server has it): give a key')
  return [incoming.socket?.remoteAddress, context.req.header(name)]
}

module.exports = { rateLimit }
