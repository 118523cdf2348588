// driver.mjs URL SPEC TIMEOUT_MS: for each line of input, one call with that key.
import { createInterface } from 'node:readline'
import { Limiter } from 'sluicegate'

const [url, spec, timeoutMs] = process.argv.slice(2)
const limiter = new Limiter(url, { timeoutMs: Number(timeoutMs) })
const limit = limiter.limit('driven', spec)
for await (const line of createInterface({ input: process.stdin })) {
  const answer = { allowed: null, source: null, error: null }
  const started = performance.now()
  try {
    const { allowed, source } = await limit.tryAcquire(line.trim())
    Object.assign(answer, { allowed, source })
  } catch (error) {
    answer.error = String(error)
  }
  console.log(JSON.stringify({ ...answer, ms: performance.now() - started }))
}
