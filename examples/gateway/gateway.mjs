// The gateway: a limit for each client address, one for each API key below it, and the services behind.
import replyFrom from '@fastify/reply-from'
import Fastify from 'fastify'
import { ClientAddress } from 'sluicegate'
import { rateLimit } from 'sluicegate/fastify'
import { forward } from './forward.mjs'
import { CLIENTS, PER_ADDRESS, QUOTAS, ROUTES } from './routes.mjs'

/** @typedef {import('fastify').FastifyRequest} Request */

/**
 * @param {object} options
 * @param {import('sluicegate').Limiter} options.limiter
 * @param {Record<string, string>} options.services Where each is.
 * @param {string[]} options.trusted The proxies that say in X-Forwarded-For who the client is.
 */
export async function gateway({ limiter, services, trusted }) {
  const app = Fastify({ logger: { level: 'warn' } })
  // The outer limit comes first, so that nobody tries API keys for long.
  await app.register(rateLimit, {
    limit: limiter.limit('per-address', PER_ADDRESS),
    key: new ClientAddress({ trusted }),
  })
  app.get('/health', { config: { rateLimit: false } }, () => ({ healthy: true }))
  app.get('/status', { config: { rateLimit: false } }, () => limiter.status())
  await app.register(async (keyed) => {
    await keyed.register(replyFrom, { undici: { headersTimeout: 5000, bodyTimeout: 5000 } })
    await addRoutes(keyed, limiter, services)
  })
  return app
}

/**
 * The part that needs an API key.
 *
 * @param {import('fastify').FastifyInstance} app
 * @param {import('sluicegate').Limiter} limiter
 * @param {Record<string, string>} services
 */
async function addRoutes(app, limiter, services) {
  // Bodies go through as they come.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, payload, done) => done(null, payload))
  app.decorateRequest('client', '')
  app.addHook('onRequest', async (request, reply) => {
    const client = CLIENTS.get(String(request.headers['x-api-key']))
    if (client === undefined) return reply.code(401).send({ error: 'an API key is needed, in X-API-Key' })
    request.client = client
  })
  // The inner limit stacks on the outer one: later in the request's life, and with each route's own quota.
  await app.register(rateLimit, {
    hook: 'preHandler',
    limit: (request) => quotaOf(request).limit,
    key: (request) => request.client,
    cost: (request) => quotaOf(request).cost,
  })

  const limits = Object.fromEntries(
    Object.entries(QUOTAS).map(([name, spec]) => [name, limiter.limit(`quota-${name}`, spec)]),
  )
  for (const { method, path, service, quota, cost = 1 } of ROUTES) {
    app.route({
      method,
      url: path,
      config: { quota: { limit: limits[quota], cost } },
      handler: (request, reply) => forward(request, reply, services[service], () => giveBack(request)),
    })
  }
}

/** @param {Request} request */
function quotaOf(request) {
  const { quota } = request.routeOptions.config
  if (quota === undefined) throw new Error(`${request.routeOptions.url} has no quota`)
  return quota
}

/**
 * The quota of a request that came to nothing. What its address may send stays used, so that nobody makes the
 * services fail for free.
 *
 * @param {Request} request
 */
async function giveBack(request) {
  const { limit, cost } = quotaOf(request)
  await limit.refund(request.client, cost)
}
