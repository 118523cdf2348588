'use strict'

const { HttpException, SetMetadata } = require('@nestjs/common')
const { HTTP_PROBLEM_CONTENT_TYPE } = require('../index.js')
const { typeError } = require('../lib/error.js')
const { besides, checked, gateOf, nodeClient } = require('./shared.js')

const METADATA = 'sluicegate:rate-limit'

class RateLimitedException extends HttpException {
  constructor(decision, body, status) {
    super(body, status)
    this.decision = decision
  }
}

function RateLimit(given) {
  if (given !== false) checked(given)
  return SetMetadata(METADATA, given)
}

class RateLimitGuard {
  #all
  #gates = new WeakMap()

  constructor(given = undefined) {
    this.#all = checked(given)
  }

  async canActivate(context) {
    const verdict = await this.#gateFor(context)?.decide(context)
    if (verdict === undefined) return true
    const { decision, headers, refusal } = verdict
    const response = context.getType() === 'http' ? context.switchToHttp().getResponse() : undefined
    for (const [name, value] of Object.entries(headers)) {
      response?.header(name, besides(name, value, response.getHeader(name)))
    }
    if (refusal === undefined) return true
    const { status, contentType, body } = refusal
    if (contentType === HTTP_PROBLEM_CONTENT_TYPE) response?.header('Content-Type', contentType)
    throw new RateLimitedException(decision, /json/.test(contentType) ? JSON.parse(body) : body, status)
  }

  #gateFor(context) {
    const [handler, controller] = [context.getHandler(), context.getClass()]
    // A handler may be inherited by several controllers.
    let gates = this.#gates.get(handler)
    if (gates === undefined) this.#gates.set(handler, (gates = new WeakMap()))
    if (!gates.has(controller)) {
      const levels = [controller, handler].map((target) => Reflect.getMetadata(METADATA, target))
      gates.set(controller, gateOf(client, this.#all, ...levels))
    }
    return gates.get(controller)
  }
}

function client(context, name) {
  if (context.getType() !== 'http')
    throw typeError(`a ${context.getType()} call has no client address: give a key`)
  return nodeClient(context.switchToHttp().getRequest(), name)
}

module.exports = { RateLimit, RateLimitGuard, RateLimitedException }
