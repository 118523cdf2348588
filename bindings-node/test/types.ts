// Is compiled, never run: what the types allow, and what they don't.
import {
  type Cost,
  type Decision,
  type ErrorCode,
  type Key,
  Limit,
  Limiter,
  type LimiterOptions,
  ManualClock,
  Permit,
  RateLimited,
  type SluicegateError,
  type Source,
  type Status,
  type StoreState,
} from 'sluicegate'

const clock: ManualClock = new ManualClock(0)
const options: LimiterOptions = {
  prefix: 'p',
  timeoutMs: 1,
  onOutage: 'share',
  denyCacheMs: 0,
  maxKeys: 64,
  clock,
}
const limiter: Limiter = new Limiter('memory://', options)
new Limiter()
new Limiter(undefined, {})
const limit: Limit = limiter.limit('name', '1/s', { onOutage: 'raise' })
const key: Key = Math.random() > 0.5 ? 'k' : Buffer.from('k')
const cost: Cost = 1n
const signal = new AbortController().signal

export async function verbs(): Promise<Decision[]> {
  const all: Promise<Decision>[] = [
    limit.tryAcquire(key),
    limit.tryAcquire(new Uint8Array([1]), cost),
    limit.acquire(key),
    limit.acquire(key, { timeoutMs: 1.5, signal }),
    limit.acquire(key, 2, { timeoutMs: 1, signal }),
    limit.reserve(key, 2, { maxWaitMs: 1, signal }),
    limit.reserve(key, { maxWaitMs: 1 }),
    limit.peek(key),
    limit.refund(key, 2),
  ]
  const reset: Promise<void> = limit.reset(key)
  await reset
  const permit: Permit = await limit.hold(key, { timeoutMs: 0, signal })
  const held: boolean = permit.allowed && permit.decision.allowed
  permit.release()
  permit[Symbol.dispose]()
  await permit[Symbol.asyncDispose]()
  const several: Decision = await limiter.tryAcquireAll([
    [limit, key],
    [limit, 'k', 2n],
  ])
  return held ? [several] : Promise.all(all)
}

const send = limit.guard(async (to: string, copies?: number) => `${to}${copies}`, {
  key: (to) => to,
  cost: (_, copies) => copies ?? 1,
})
export const sent: Promise<string> = send('a')

export function values(decision: Decision, status: Status): unknown[] {
  const retry: number | null = decision.retryAfterMs
  const source: Source = decision.source
  const state: StoreState = status.state
  const since: Date = status.since
  const error: SluicegateError = new RateLimited(decision, 'why')
  const code: ErrorCode = error.code
  clock.advance(1)
  clock.set(clock.now())
  limiter.close()
  return [retry, source, state, since, code, limit.name.length, limit.spec.length, limiter.status().rank]
}

export function wrong(decision: Decision): unknown[] {
  return [
    // @ts-expect-error: limits are made by a limiter
    new Limit(),
    // @ts-expect-error: permits are made by hold
    new Permit(),
    // @ts-expect-error: no such option
    new Limiter('memory://', { timeout: 1 }),
    // @ts-expect-error: no such mode
    limiter.limit('a', '1/s', { onOutage: 'panic' }),
    // @ts-expect-error: a key is text or bytes
    limit.tryAcquire(42),
    // @ts-expect-error: a cost is a number
    limit.tryAcquire('k', '1'),
    // @ts-expect-error: a guard needs a key
    limit.guard(() => 1, {}),
    // @ts-expect-error: what is guarded keeps its arguments
    send(1),
    // @ts-expect-error: retryAfterMs may be null
    decision.retryAfterMs + 1,
  ]
}

export function rename(): void {
  // @ts-expect-error: a name is for ever
  limit.name = 'x'
}
