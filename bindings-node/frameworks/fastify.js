'use strict'

const { checked, gateOf, besides, nodeClient } = require('./shared.js')
const { typeError } = require('../lib/error.js')

const HOOKS = ['onRequest', 'preParsing', 'preValidation', 'preHandler']

async function rateLimit(fastify, { hook = 'onRequest', ...given }) {
  if (!HOOKS.includes(hook))
    throw typeError(`hook must be one of ${HOOKS.join(', ')}, got ${JSON.stringify(hook)}`)
  // What register() itself takes comes along.
  const { prefix, logLevel, logSerializers, ...own } = given
  const all = checked(own)
  const gates = new WeakMap()
  const unconfigured = gateOf(nodeClient, all)

  function gateFor(config) {
    if (config?.rateLimit === undefined) return unconfigured
    if (!gates.has(config)) gates.set(config, gateOf(nodeClient, all, config.rateLimit))
    return gates.get(config)
  }

  // What is wrong in a route's configuration shows when it is added, not at its first request.
  fastify.addHook('onRoute', ({ config }) => {
    gateFor(config)
  })

  fastify.addHook(hook, async (request, reply) => {
    const verdict = await gateFor(request.routeOptions.config)?.decide(request)
    for (const [name, value] of Object.entries(verdict?.headers ?? {})) {
      reply.header(name, besides(name, value, reply.getHeader(name)))
    }
    if (verdict?.refusal === undefined) return
    const { status, contentType, body } = verdict.refusal
    return reply.code(status).type(contentType).send(body)
  })
}

// What fastify-plugin would set: the hooks are for the instance that registers, not for a child of it.
rateLimit[Symbol.for('skip-override')] = true
rateLimit[Symbol.for('fastify.display-name')] = 'sluicegate'
rateLimit[Symbol.for('plugin-meta')] = { name: 'sluicegate', fastify: '>=4.23.0' }

module.exports = { rateLimit, default: rateLimit }
