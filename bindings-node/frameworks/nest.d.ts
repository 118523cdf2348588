import { type CanActivate, type ExecutionContext, HttpException } from '@nestjs/common'
import type { Decision } from '../index.js'
import type { RateLimitOptions as Options } from './shared.js'

/**
 * The options of {@link RateLimitGuard} and {@link RateLimit}; their functions are given the
 * `ExecutionContext`. What `refusal` returns is the exception's response: text becomes its message.
 */
export type RateLimitOptions = Partial<Options<ExecutionContext>>

/**
 * Says for a handler or a controller what {@link RateLimitGuard} holds it to: options that differ from
 * the controller's or the guard's, or false for no limit.
 *
 * @throws {TypeError} For an option of a wrong type or an unknown one.
 */
export function RateLimit(options: RateLimitOptions | false): MethodDecorator & ClassDecorator

/**
 * A guard that refuses who is over the limit with {@link RateLimitedException}. What neither it nor a
 * {@link RateLimit} gives a `limit` is not limited. Responses to who is not over get the `RateLimit` fields too,
 * on Express and on Fastify. A call that is not HTTP needs a `key`, as it has no client address.
 *
 * ```ts
 * app.useGlobalGuards(new RateLimitGuard({ limit: limiter.limit('api', '100/minute') }))
 * ```
 */
export class RateLimitGuard implements CanActivate {
  /** @throws {TypeError} For an option of a wrong type or an unknown one. */
  constructor(options?: RateLimitOptions)

  /** Decides; for Nest. */
  canActivate(context: ExecutionContext): Promise<boolean>
}

/** A refusal, as Nest's exception filters get it: status 429, and problem details (RFC 9457) as its response. */
export class RateLimitedException extends HttpException {
  /** Made by {@link RateLimitGuard}; a program may make its own, for its tests. */
  constructor(decision: Decision, body: string | Record<string, unknown>, status: number)

  /** The refusal. */
  readonly decision: Decision
}
