import type { Context, Middleware } from 'koa'
import type { RateLimitOptions as Options } from './shared.js'

/** The options of {@link rateLimit}; its functions are given the context. */
export type RateLimitOptions = Options<Context>

/**
 * A middleware of Koa that answers 429 to who is over the limit. Responses to who is not get the
 * `RateLimit` fields too; those of several limits stand together.
 *
 * ```js
 * app.use(rateLimit({ limit: limiter.limit('api', '100/minute') }))
 * ```
 *
 * @throws {TypeError} For an option of a wrong type or an unknown one.
 */
export function rateLimit(options: RateLimitOptions): Middleware
