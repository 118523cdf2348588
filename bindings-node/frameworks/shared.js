'use strict'

// What the middlewares share: the way from a request to what its response says about the limit.
const { ClientAddress, HTTP_PROBLEM_CONTENT_TYPE, HTTP_STATUS, Limit } = require('../index.js')
const { typeError } = require('../lib/error.js')
const { options } = require('../lib/options.js')

const NAMES = ['limit', 'key', 'cost', 'skip', 'legacyHeaders', 'refusal']
const TEXT = 'text/plain; charset=utf-8'
const JSON_TYPE = 'application/json; charset=utf-8'
// Fields that are lists: those of several limits stand beside each other in one response.
const LISTS = new Set(['RateLimit-Policy', 'RateLimit'])

/** Holds requests to a limit. A request is whatever the framework hands to its middlewares. */
class Gate {
  #limit
  #key
  #cost
  #skip
  #legacy
  #refusal

  /**
   * @param given The options that all middlewares have.
   * @param client Of a request and a header's name: the peer's address and the header's value.
   */
  constructor(given, client) {
    const { limit, key = new ClientAddress(), cost, skip, legacyHeaders, refusal } = checked(given)
    if (limit === undefined) throw notALimit(limit)
    this.#limit = perRequest(limit)
    this.#key =
      key instanceof ClientAddress ? (request) => key.key(...client(request, key.header)) : perRequest(key)
    this.#cost = perRequest(cost)
    this.#skip = skip
    this.#legacy = legacyHeaders
    this.#refusal = refusal
  }

  /** The header fields for a response and, where the request is refused, the rest of it. Nothing where it is skipped. */
  async decide(request) {
    if (await this.#skip?.(request)) return undefined
    const limit = await this.#limit(request)
    if (!(limit instanceof Limit)) throw notALimit(limit)
    const decision = await limit.tryAcquire(await this.#key(request), await this.#cost(request))
    const headers = limit.httpHeaders(decision, { legacy: this.#legacy })
    if (decision.allowed) return { decision, headers }
    return { decision, headers, refusal: await this.#refuse(limit, decision, request) }
  }

  async #refuse(limit, decision, request) {
    if (this.#refusal === undefined) {
      const body = limit.httpProblem(decision)
      return { status: HTTP_STATUS, contentType: HTTP_PROBLEM_CONTENT_TYPE, body, value: JSON.parse(body) }
    }
    const value = await this.#refusal(decision, request)
    const text = typeof value === 'string'
    const body = text ? value : JSON.stringify(value)
    if (body === undefined) throw typeError(`refusal must return text or what JSON has, got ${typeof value}`)
    return { status: HTTP_STATUS, contentType: text ? TEXT : JSON_TYPE, body, value }
  }
}

/** The options, if they are ones of a middleware: those of a route may leave any out. */
function checked(given) {
  const known = options(given, ...NAMES)
  const { limit, skip, refusal } = known
  if (limit !== undefined && typeof limit !== 'function' && !(limit instanceof Limit)) throw notALimit(limit)
  for (const [name, value] of Object.entries({ skip, refusal })) {
    if (value !== undefined && typeof value !== 'function') throw typeError(`${name} must be a function`)
  }
  return known
}

/** What makes the gate of a route: its own options before those for all. None where nothing limits it. */
function gateOf(client, ...levels) {
  const own = levels.filter((level) => level !== undefined)
  if (own.at(-1) === false) return undefined
  const merged = Object.assign({}, ...own.filter((level) => level !== false).map(checked))
  return merged.limit === undefined ? undefined : new Gate(merged, client)
}

function perRequest(value) {
  return typeof value === 'function' ? value : () => value
}

function notALimit(limit) {
  return typeError(`limit must be a Limit or a function that returns one, got ${typeof limit}`)
}

/** The value of a field in a response that may have one of another limit already. */
function besides(name, value, there) {
  return LISTS.has(name) && there ? `${there}, ${value}` : value
}

/** The peer and a header of a request of Node's. */
function nodeClient(request, name) {
  return [request.socket?.remoteAddress, request.headers[name]]
}

module.exports = { Gate, LISTS, besides, checked, gateOf, nodeClient }
