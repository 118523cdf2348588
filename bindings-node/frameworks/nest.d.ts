import {
  type ArgumentsHost,
  type CanActivate,
  type ExceptionFilter,
  type ExecutionContext,
  HttpException,
} from '@nestjs/common'
import type { Decision } from '../index.js'
import type { RateLimitOptions as Options } from './shared.js'

/**
 * The options of {@link RateLimitGuard} and {@link RateLimit}; their functions are given the
 * `ExecutionContext`. What `refusal` returns is the exception's response.
 */
export type RateLimitOptions = Partial<Options<ExecutionContext>>

/**
 * Says for a handler or a controller what {@link RateLimitGuard} holds it to: options that differ from
 * the controller's or the guard's, or false for no limit. It brings {@link RateLimitFilter} along.
 *
 * @throws {TypeError} For an option of a wrong type or an unknown one.
 */
export function RateLimit(options: RateLimitOptions | false): MethodDecorator & ClassDecorator

/**
 * A guard that refuses who is over the limit with {@link RateLimitedException}. What neither it nor a
 * {@link RateLimit} gives a `limit` is not limited. Responses to who is not over get the `RateLimit` fields too,
 * on Express and on Fastify. It is for HTTP: what is not has no client address, so skip it.
 *
 * ```ts
 * app.useGlobalGuards(new RateLimitGuard({ limit: limiter.limit('api', '100/minute') }))
 * app.useGlobalFilters(new RateLimitFilter())
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
  constructor(decision: Decision, body: string | Record<string, unknown>, contentType: string)

  /** The refusal. */
  readonly decision: Decision

  /** What its response is to be sent as. */
  readonly contentType: string
}

/**
 * Answers with a {@link RateLimitedException}'s response as the content type that it has; Nest itself makes
 * `application/json` of every error. What has no {@link RateLimit} needs it as a global filter.
 */
export class RateLimitFilter implements ExceptionFilter<RateLimitedException> {
  /** Answers; for Nest. */
  catch(exception: RateLimitedException, host: ArgumentsHost): unknown
}
