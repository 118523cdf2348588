import type { ClientAddress, Cost, Decision, Key, Limit } from '../index.js'

/** A value, or a function of the request that says it. */
export type PerRequest<T, R> = T | ((request: R) => T | Promise<T>)

/**
 * What every middleware takes. `R` is what the framework hands to its own middlewares: the request, or
 * the context that has it. A function that throws or rejects is an error of the request's, as any of a
 * middleware's; so is what {@link Limit.tryAcquire} rejects with.
 */
export interface RateLimitOptions<R> {
  /**
   * The limit, or a function that chooses one, such as that of the client's plan. Any but a concurrency
   * limit. Make the limits once, not in the function.
   */
  limit: PerRequest<Limit, R>
  /**
   * Who is limited: a function of the request, one key for all, or a {@link ClientAddress}, which takes
   * the client's address. Unless said, a `ClientAddress` that trusts no proxy: the address of the
   * connection's other end, where no header that a client sends is read.
   */
  key?: Key | ClientAddress | ((request: R) => Key | Promise<Key>)
  /** Units that the request takes; 1 unless said. */
  cost?: PerRequest<Cost, R>
  /** Whether the request is not limited, such as a health check. */
  skip?: (request: R) => boolean | Promise<boolean>
  /** Adds the older `X-RateLimit-*` fields; false unless said. */
  legacyHeaders?: boolean
  /**
   * What is sent with a refusal's 429 instead of problem details (RFC 9457): text as `text/plain`, any
   * other value as JSON.
   */
  refusal?: (decision: Decision, request: R) => unknown
}
