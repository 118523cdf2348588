'use strict'

const { Catch, HttpException, SetMetadata, UseFilters, applyDecorators } = require('@nestjs/common')
const { HTTP_STATUS } = require('../index.js')
const { typeError } = require('../lib/error.js')
const { besides, checked, gateOf, nodeClient } = require('./shared.js')

const METADATA = 'sluicegate:rate-limit'

class RateLimitedException extends HttpException {
  constructor(decision, body, contentType) {
    super(body, HTTP_STATUS)
    this.decision = decision
    this.contentType = contentType
  }
}

/** Nest itself sends every error's body as application/json. */
class RateLimitFilter {
  catch(exception, host) {
    // What is not HTTP has its own way to tell of an error.
    if (host.getType() !== 'http') return exception
    const body = exception.getResponse()
    const response = host.switchToHttp().getResponse()
    response.status(exception.getStatus()).header('Content-Type', exception.contentType)
    response.send(typeof body === 'string' ? body : JSON.stringify(body))
  }
}
Catch(RateLimitedException)(RateLimitFilter)

function RateLimit(given) {
  const metadata = SetMetadata(METADATA, given)
  if (given === false) return metadata
  checked(given)
  return applyDecorators(metadata, UseFilters(new RateLimitFilter()))
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
    throw new RateLimitedException(decision, refusal.value, refusal.contentType)
  }

  #gateFor(context) {
    const [handler, controller] = [context.getHandler(), context.getClass()]
    // A handler may be inherited by several controllers.
    const gates = this.#gates.get(handler) ?? new WeakMap()
    this.#gates.set(handler, gates)
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

module.exports = { RateLimit, RateLimitFilter, RateLimitGuard, RateLimitedException }
