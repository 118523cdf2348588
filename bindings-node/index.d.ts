/// <reference lib="esnext.disposable" />

/**
 * One rate limit, shared by every process that names it, whatever its language.
 *
 * ```js
 * import { Limiter } from 'sluicegate'
 * const limiter = new Limiter('redis://localhost:6379')
 * const login = limiter.limit('login', '100/s burst 200')
 * const decision = await login.tryAcquire('user:42')
 * if (!decision.allowed) tooManyRequests(decision.retryAfterMs)
 * ```
 *
 * Being over a limit is a {@link Decision} with `allowed: false`, never an exception or a rejected
 * promise. Durations are numbers of milliseconds, fractional to the microsecond, and their names
 * end in `Ms`.
 *
 * A process with an idle limiter exits by itself; calls under way hold it open.
 *
 * @packageDocumentation
 */

/**
 * Who is limited: text or bytes, not empty. A string and the bytes of its UTF-8 are the same key.
 * A string with a lone surrogate is refused with a `TypeError`.
 */
export type Key = string | Uint8Array

/** How many units a call takes: a whole number from 0 to 2^53. 0 is allowed and changes nothing. */
export type Cost = number | bigint

/**
 * What to do while the store can't be reached:
 * - `share`: each process decides by its share of the limit; the shares add up to the limit.
 * - `allow`: everything is admitted.
 * - `deny`: everything is refused.
 * - `raise`: calls reject with the code `OUTAGE`.
 */
export type OnOutage = 'share' | 'allow' | 'deny' | 'raise'

/**
 * Where a decision was made:
 * - `redis`: by the shared store.
 * - `memory`: by this process, because the limiter was opened on `memory://`.
 * - `lease`: by a borrowed part of the limit, without asking the store.
 * - `deny-cache`: by the memory of a refusal a moment ago.
 * - `outage`: here, because the store was away.
 */
export type Source = 'redis' | 'memory' | 'lease' | 'deny-cache' | 'outage'

/**
 * Whether the store decides: `connecting` (calls wait for the first connection within their
 * budget), `up`, `out` (calls are decided here) or `closed`.
 */
export type StoreState = 'connecting' | 'up' | 'out' | 'closed'

/**
 * What an error's `code` says, and what to do about it:
 * - `SPEC`: the text of a spec can't be read or can't be met; correct the spec.
 * - `ARGUMENT`: an argument is out of range; correct the call.
 * - `CONFIG`: a URL or an option of the limiter is wrong; correct the configuration.
 * - `UNSUPPORTED`: the verb has no meaning for the limit's algorithm; use another.
 * - `OUTAGE`: the store is away and the limit says `onOutage: 'raise'`; try later.
 * - `CLOSED`: the limiter was closed; open another.
 * - `INTERNAL`: a defect in Sluicegate; report it.
 * - `RATE_LIMITED`: only of a {@link RateLimited}.
 */
export type ErrorCode =
  | 'SPEC'
  | 'ARGUMENT'
  | 'CONFIG'
  | 'UNSUPPORTED'
  | 'OUTAGE'
  | 'CLOSED'
  | 'INTERNAL'
  | 'RATE_LIMITED'

/** The answer to a call: a plain object. */
export interface Decision {
  /** Whether the call may go on. */
  allowed: boolean
  /** The most that can pass at once: the burst, the count, or the number of permits. */
  limit: number
  /** What is left for others after this call. */
  remaining: number
  /**
   * Milliseconds until the same cost would be admitted if nobody else comes: refused strictly
   * before, admitted exactly then. `null` when allowed, and when the cost can never fit.
   */
  retryAfterMs: number | null
  /** Milliseconds until the state will be as if the key had never been used. */
  resetAfterMs: number
  /** Milliseconds to wait before going on. 0 unless the decision comes from `reserve`. */
  waitMs: number
  /** Where the decision was made. */
  source: Source
  /**
   * Which limit of the spec the numbers are of, from 0: refused, the one with the longest wait;
   * allowed, the one with the least remaining.
   */
  rule: number
}

/** The status of a refusal: 429, Too Many Requests. */
export const HTTP_STATUS: number

/** The `Content-Type` of {@link Limit.httpProblem}. */
export const HTTP_PROBLEM_CONTENT_TYPE: string

/** The options of {@link Limit.httpHeaders}. */
export interface HttpHeadersOptions {
  /**
   * Adds the older `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, which is in
   * how many whole seconds all of it will be there again.
   */
  legacy?: boolean
}

/** Which header trusted proxies say the client's address in; `Forwarded` is RFC 7239's. */
export type ForwardedHeader = 'x-forwarded-for' | 'forwarded'

/** The options of a {@link ClientAddress}. An unknown name is refused with a `TypeError`. */
export interface ClientAddressOptions {
  /**
   * The proxies that are trusted: addresses, networks such as `10.0.0.0/8`, or the presets `loopback`,
   * `linklocal`, `uniquelocal` (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, fc00::/7) and `unix` (peers
   * without an address, as on a Unix socket); at most 4096. None unless said. Every machine in them
   * can choose its key, so name what your proxies have and nothing else.
   */
  trusted?: readonly string[]
  /**
   * The one header that these proxies set; `x-forwarded-for` unless said. The other is never read, as
   * proxies pass it on unseen.
   */
  header?: ForwardedHeader
  /** How many leading bits of an IPv4 address name a client, 1 to 32; 32 unless said. */
  ipv4Prefix?: number
  /**
   * How many leading bits of an IPv6 address name a client, 1 to 128; 64 unless said, which is what
   * one subscriber has.
   */
  ipv6Prefix?: number
}

/**
 * Turns a request's peer and header into a key that says who the client is, and that a client can't
 * choose.
 *
 * A proxy that is trusted says in a header from whom it got the request. The header is read from its
 * end, one hop after the other, for as long as the hop that said it is trusted; the first address that
 * is not is the client. Without trusted proxies no header is read.
 *
 * ```js
 * const client = new ClientAddress({ trusted: ['loopback', '10.0.0.0/8'] })
 * const key = client.key(request.socket.remoteAddress, request.headers[client.header])
 * ```
 */
export class ClientAddress {
  /**
   * @throws {SluicegateError} `CONFIG` for what is none of these, and for a network of all addresses.
   * @throws {TypeError} For an option of a wrong type.
   */
  constructor(options?: ClientAddressOptions)

  /** The name of the header whose values {@link ClientAddress.key} wants, in lower case. */
  readonly header: ForwardedHeader

  /**
   * Who the client is: `203.0.113.7`, or `2001:db8:1:2::/64` where a prefix groups addresses.
   *
   * It never fails for what they hold. What is no address in the header ends the walk at the last
   * trusted proxy. A peer without an address is `unknown`, unless it is trusted (`unix`) and the
   * header names a client.
   *
   * @param peer The address of the connection's other end, with or without port, brackets or zone.
   * @param header The header's value, or its values in the order in which they came.
   */
  key(peer: string | undefined, header?: string | readonly string[]): string
}

/** The options of a limiter. An unknown name is refused with a `TypeError`. */
export interface LimiterOptions {
  /**
   * What all keys in Redis begin with: 1 to 128 bytes without braces or spaces; `sg` unless said.
   * Limiters with one URL and prefix share their limits.
   */
  prefix?: string
  /**
   * The time budget of a decision in milliseconds, 1 to 60,000; 100 unless said. A call that Redis
   * has not answered by then is decided here, as `onOutage` says.
   */
  timeoutMs?: number
  /** What to do when the store can't be reached; `share` unless said. */
  onOutage?: OnOutage
  /**
   * How long at most, in milliseconds, a refusal is remembered, so that a flood of refused calls
   * needs no network; 100 unless said, 0 is off, at most 60,000.
   */
  denyCacheMs?: number
  /**
   * The bound of each table of keys that this process keeps, a whole number from 64 to 2^32;
   * 1,000,000 unless said. A full table drops keys that are as good as fresh and refuses new ones
   * where there is none.
   */
  maxKeys?: number
  /**
   * How many calls of this process may wait for one server's answer, a whole number from 64 to 2^32;
   * 100,000 unless said. More are decided here at once, as `onOutage` says.
   */
  maxWaiting?: number
  /** A clock that is moved by hand, for tests. */
  clock?: ManualClock
  /**
   * Is told when something changes: the first connection, the store away and back, a table of keys
   * that is full. Nothing is told while nothing changes, and waiting for it does not keep the process
   * alive.
   */
  onEvent?: (event: LimiterEvent) => void
}

/**
 * What changed:
 * - `up`: the store decides, for the first time.
 * - `out`: the store is away; calls are decided here.
 * - `back`: the store decides again.
 * - `full`: calls on new keys are refused because the table of keys is full; told once a minute at most.
 */
export type EventKind = 'up' | 'out' | 'back' | 'full'

/** A change of a limiter's. */
export interface LimiterEvent {
  /** What changed. */
  kind: EventKind
  /** When. */
  at: Date
  /** What a log says of it, with the reason, without secrets. */
  message: string
}

/** The options of a limit. */
export interface LimitOptions {
  /** This limit's own behaviour in an outage, instead of its limiter's. */
  onOutage?: OnOutage
}

/** The options of {@link Limit.acquire} and {@link Limit.hold}. */
export interface WaitOptions {
  /**
   * The longest wait in milliseconds, 0 to 366 days, which is also what it is unless said. Where
   * the wait would be longer, the call is refused at once.
   */
  timeoutMs?: number
  /**
   * Gives the call up: its promise rejects with the signal's reason, an `AbortError` unless said,
   * and the turn is given back. What is decided already when the signal comes, counts.
   */
  signal?: AbortSignal
}

/** The options of {@link Limit.reserve}. */
export interface ReserveOptions {
  /** The longest wait in milliseconds, 0 to 366 days, which is also what it is unless said. */
  maxWaitMs?: number
  /**
   * Stops waiting for the decision, and rejects with the signal's reason. A decision that is under
   * way is still made.
   */
  signal?: AbortSignal
}

/** The options of {@link Limit.guard}. */
export interface GuardOptions<This = unknown, Args extends unknown[] = unknown[]> {
  /** Who is limited, or a function of the call's arguments that says it. */
  key: Key | ((this: This, ...args: Args) => Key | Promise<Key>)
  /** Units that a call takes, or a function of its arguments that says it; 1 unless said. */
  cost?: Cost | ((this: This, ...args: Args) => Cost | Promise<Cost>)
}

/** A limiter's state at a moment. */
export interface Status {
  /** Whether the store decides. A limiter on `memory://` is always up, until it is closed. */
  state: StoreState
  /** Since when. */
  since: Date
  /**
   * How many processes share this limiter's URL and prefix, this one among them, as far as is
   * known. 0 before the first heartbeat.
   */
  processes: number
  /** This process's place among them, from 0: it decides who gets the remainder of a share. */
  rank: number
  /** What went wrong last, without secrets. */
  lastError: string | null
  /** Keys whose state this process keeps. */
  localKeys: number
  /** Calls on new keys that were refused because the table of keys was full. */
  refusedFull: number
  /** Keys whose refusal is remembered. */
  denyCacheKeys: number
}

/** A store, its connections and its limits: what a process opens once. */
export class Limiter {
  /**
   * Opens a limiter. It waits for nothing: one that is opened while Redis is down decides in
   * outage mode, and joins when Redis comes.
   *
   * @param url Where the state lives: `redis://`, `rediss://`, `redis+unix://`,
   *   `redis+cluster://h:p,h:p`, `redis+sentinel://h:p,h:p/master` or
   * `memory://`, which it is unless said.
   * @throws {SluicegateError} `CONFIG` for a bad URL or option.
   * @throws {TypeError} For an argument of a wrong type or an unknown option.
   */
  constructor(url?: string, options?: LimiterOptions)

  /**
   * A limit: a name, shared by all processes that use it, and a spec such as `100/s burst 200`.
   *
   * @param name 1 to 128 bytes of text.
   * @throws {SluicegateError} `SPEC` for a spec that can't be read or met, `ARGUMENT` for a bad
   * name, `CONFIG` for an unknown `onOutage`, `CLOSED`.
   * @throws {TypeError} For an argument of a wrong type or an unknown option.
   */
  limit(name: string, spec: string, options?: LimitOptions): Limit

  /**
   * Takes from several limits or from none, in one atomic step. The one decision speaks for the
   * limit with the longest wait where it refuses, and for the one with the least remaining where it
   * allows.
   *
   * Rejects with `ARGUMENT` for a bad cost or key, an empty list, more than 64 entries, or one that
   * names a limit and key twice; `UNSUPPORTED` for a concurrency limit; `OUTAGE`, `CLOSED`.
   *
   * @param entries `[limit, key, cost]` each; a cost of 1 may be left out.
   */
  tryAcquireAll(entries: ReadonlyArray<readonly [limit: Limit, key: Key, cost?: Cost]>): Promise<Decision>

  /**
   * {@link Limit.httpHeaders} for decisions on several limits: `[limit, decision]` each. The
   * policies of all of them, and the longest wait.
   */
  httpHeaders(
    decisions: ReadonlyArray<readonly [limit: Limit, decision: Decision]>,
    options?: HttpHeadersOptions,
  ): Record<string, string>

  /**
   * {@link Limit.httpProblem} for decisions on several limits: `[limit, decision]` each. It
   * names the limits that say how long to wait; all of them, where none does.
   */
  httpProblem(decisions: ReadonlyArray<readonly [limit: Limit, decision: Decision]>): string

  /** What the limiter knows of its store and of itself. */
  status(): Status

  /**
   * Leaves the store and closes the connections. Calls that are under way are still answered;
   * later ones reject with `CLOSED`. A limiter that is garbage-collected closes by itself.
   */
  close(): void
}

/**
 * A name plus a spec: what keys are held to. Made by {@link Limiter.limit}.
 *
 * Every verb rejects with `ARGUMENT` for an empty key or a cost out of range, `UNSUPPORTED` where
 * it has no meaning for the limit's algorithm, `OUTAGE` under `onOutage: 'raise'`, and `CLOSED`;
 * with a `TypeError` for an argument of a wrong type. A refusal is never a rejection.
 */
export class Limit {
  private constructor()

  /** The limit's name. */
  readonly name: string

  /** The spec, as its one canonical text. */
  readonly spec: string

  /**
   * Decides now, in one round trip at most.
   *
   * @param cost Units to take; 1 unless said.
   */
  tryAcquire(key: Key, cost?: Cost): Promise<Decision>

  /**
   * Waits its turn, first come first served, and gives up at once when the wait would be longer
   * than `timeoutMs`; the decision then is a refusal.
   *
   * token-bucket, gcra and leaky-bucket keep the order over all processes. The windowed algorithms and specs of several limits
   * can't reserve: there, callers wait for `retryAfterMs` with jitter.
   *
   * @param cost Units to take; 1 unless said.
   */
  acquire(key: Key, options?: WaitOptions): Promise<Decision>
  acquire(key: Key, cost?: Cost, options?: WaitOptions): Promise<Decision>

  /**
   * Takes the turn, if it comes within `maxWaitMs`, and says in `waitMs` how long to wait for it.
   * {@link Limit.refund} gives it back. For token-bucket, gcra and leaky-bucket only.
   *
   * @param cost Units to take; 1 unless said.
   */
  reserve(key: Key, options?: ReserveOptions): Promise<Decision>
  reserve(key: Key, cost?: Cost, options?: ReserveOptions): Promise<Decision>

  /** Says whether a cost of 1 would pass now, and changes nothing. */
  peek(key: Key): Promise<Decision>

  /**
   * Gives back, never above the capacity; the decision tells the state after.
   *
   * @param cost Units to give back; 1 unless said.
   */
  refund(key: Key, cost?: Cost): Promise<Decision>

  /** Forgets the key: it is as if never used. */
  reset(key: Key): Promise<void>

  /**
   * Takes a permit of a concurrency limit, waiting up to `timeoutMs` for one: here it is 0 unless
   * said, so that a limit that is full refuses at once. It is renewed while it is held.
   */
  hold(key: Key, options?: WaitOptions): Promise<Permit>

  /**
   * The function `fn`, held to this limit: a call that is refused rejects with {@link RateLimited},
   * which carries the decision, and `fn` is not called.
   *
   * ```js
   * const send = limit.guard(sendMail, { key: (to) => to })
   * ```
   *
   * @throws {TypeError} For an argument of a wrong type or an unknown option.
   */
  guard<Fn extends (this: never, ...args: never[]) => unknown>(
    fn: Fn,
    options: GuardOptions<ThisParameterType<Fn>, Parameters<Fn>>,
  ): (this: ThisParameterType<Fn>, ...args: Parameters<Fn>) => Promise<Awaited<ReturnType<Fn>>>

  /**
   * The header fields for a decision of this limit, by name: `RateLimit-Policy` and `RateLimit`
   * (draft-ietf-httpapi-ratelimit-headers), and `Retry-After` in whole seconds, rounded up, where it is
   * a refusal that time can heal. They fit every response, also one to a call that was admitted.
   */
  httpHeaders(decision: Decision, options?: HttpHeadersOptions): Record<string, string>

  /**
   * The body of a refusal, as JSON text: problem details (RFC 9457) of the draft's type
   * `quota-exceeded`, with `violated-policies`. It goes with the status {@link HTTP_STATUS} and the
   * content type {@link HTTP_PROBLEM_CONTENT_TYPE}.
   */
  httpProblem(decision: Decision): string
}

/**
 * What {@link Limit.hold} gives: a place under a concurrency limit, if `allowed`.
 *
 * `using permit = await limit.hold(key)` releases it at the end of the block. One that is garbage-
 * collected is released too, so keep it for as long as the place is needed. A process that dies
 * loses its permits `ttl` after their last renewal.
 */
export class Permit {
  private constructor()

  /** The decision. */
  readonly decision: Decision

  /** Whether there is a permit: the decision's `allowed`. */
  get allowed(): boolean

  /** Gives the permit back. It waits for nothing, and may be called again. */
  release(): void

  /** The same as {@link Permit.release}, for `using`. */
  [Symbol.dispose](): void

  /** The same as {@link Permit.release}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * A clock that stands still until it is moved, for tests of code that uses limits.
 *
 * A limiter on Redis sends its time along instead of letting Redis use its own, so all limiters of
 * a test should share one clock.
 */
export class ManualClock {
  /**
   * @param startMs Milliseconds since the Unix epoch, as `Date.now()`; a billion seconds unless
   * said.
   */
  constructor(startMs?: number)

  /** Moves the clock ahead by 0 or more milliseconds. Who waits for a time that has now come is woken. */
  advance(ms: number): void

  /** Puts the clock at a time in milliseconds since the Unix epoch, ahead or back. */
  set(ms: number): void

  /** The time on the clock, in milliseconds since the Unix epoch. */
  now(): number
}

/** What is thrown, or rejected with, when something is wrong. `code` says what. */
export class SluicegateError extends Error {
  /** Made by this package; a program may make its own, for its tests. */
  constructor(code: ErrorCode, message: string, options?: { cause?: unknown })

  /** What kind of error this is. */
  readonly code: ErrorCode
}

/** For guards and middleware that turn a refusal into an error. The verbs never raise it. */
export class RateLimited extends SluicegateError {
  /** @param message `rate limited` unless said. */
  constructor(decision: Decision, message?: string)

  /** The refusal. */
  readonly decision: Decision
}
