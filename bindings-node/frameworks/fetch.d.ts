import type { Cost, Key, Limit } from '../index.js'

type Input = Parameters<typeof globalThis.fetch>[0]
type Init = Parameters<typeof globalThis.fetch>[1]
type PerCall<T> = T | ((input: Input, init: Init) => T | Promise<T>)

/** The options of {@link rateLimitedFetch}. */
export interface RateLimitedFetchOptions {
  /** The limit that calls wait for, or a function that chooses one. Any but a concurrency limit. */
  limit: PerCall<Limit>
  /** Who is limited; the host (and port, if any) of the URL unless said. */
  key?: PerCall<Key>
  /** Units that a call takes; 1 unless said. */
  cost?: PerCall<Cost>
  /**
   * The longest wait for a turn, in milliseconds, 0 to 366 days, which is also what it is unless said.
   * Where the wait would be longer, the call rejects at once. The call itself takes its own time.
   */
  timeoutMs?: number
  /**
   * For how long at most, in milliseconds, this function heeds the `Retry-After` of a 429 or 503 response:
   * later calls with its key wait until then, and it counts in their `timeoutMs`. 0 to 2^31 - 1; 0, which is
   * off, unless said. The response itself is returned as it is, and no call is repeated.
   */
  heedRetryAfterMs?: number
  /** The function that is called; the global `fetch` unless said. */
  fetch?: typeof globalThis.fetch
}

/**
 * A `fetch` that waits its turn, first come first served over all processes that share the limit.
 *
 * ```js
 * const fetch = rateLimitedFetch({ limit: limiter.limit('provider', 'leaky-bucket 10/s'), timeoutMs: 5000 })
 * const response = await fetch('https://api.example.com/orders', { signal })
 * ```
 *
 * A call rejects with `RateLimited`, which carries the decision, where its turn would come later than
 * `timeoutMs`; and with its signal's reason when that aborts: the turn is then given back.
 *
 * @throws {TypeError} For an option of a wrong type or an unknown one.
 */
export function rateLimitedFetch(options: RateLimitedFetchOptions): typeof globalThis.fetch
