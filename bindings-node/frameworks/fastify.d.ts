import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import type { RateLimitOptions } from './shared.js'

/** What a route says in its `config.rateLimit`: options that differ from the plugin's, or false for no limit. */
export type RouteRateLimitOptions = Partial<RateLimitOptions<FastifyRequest>>

/** The options of the plugin {@link rateLimit}; their functions are given the request. */
export interface RateLimitPluginOptions extends RouteRateLimitOptions {
  /**
   * When in a request's life it is decided: `onRequest` unless said. A key that needs who is logged in
   * needs a later hook than the one that finds that out.
   */
  hook?: 'onRequest' | 'preParsing' | 'preValidation' | 'preHandler'
}

/**
 * A plugin of Fastify 4 and 5 that answers 429 to who is over the limit, on every route of the instance
 * that registers it, also where no route is found. Without a `limit`, only routes that say one are limited.
 * Responses to who is not over get the `RateLimit` fields too.
 *
 * ```js
 * await app.register(rateLimit, { limit: limiter.limit('api', '100/minute') })
 * app.get('/report', { config: { rateLimit: { cost: 10 } } }, handler)
 * ```
 */
export const rateLimit: FastifyPluginAsync<RateLimitPluginOptions>
export default rateLimit

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route's own options of `sluicegate/fastify`, or false for no limit. */
    rateLimit?: RouteRateLimitOptions | false
  }
}
