import type { Context, Env, MiddlewareHandler } from 'hono'
import type { RateLimitOptions as Options } from './shared.js'

/** The options of {@link rateLimit}; its functions are given the context. */
// biome-ignore lint/suspicious/noExplicitAny: so that Hono's own types take it for any app
export type RateLimitOptions<E extends Env = any> = Options<Context<E>>

/**
 * A middleware of Hono that answers 429 to who is over the limit. Responses to who is not get the
 * `RateLimit` fields too; those of several limits stand together.
 *
 * The client's address is there under `@hono/node-server`. Elsewhere, as in `app.request()`, give a `key`:
 * without one the request fails with a `TypeError`.
 *
 * ```js
 * app.use(rateLimit({ limit: limiter.limit('api', '100/minute') }))
 * ```
 *
 * @throws {TypeError} For an option of a wrong type or an unknown one.
 */
// biome-ignore lint/suspicious/noExplicitAny: as above
export function rateLimit<E extends Env = any>(options: RateLimitOptions<E>): MiddlewareHandler<E>
