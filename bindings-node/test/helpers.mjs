// What several test files need.
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'

/** The stores to test on: this process's memory, and the Redis that is said, if one is. */
export const stores = [
  { source: 'memory', url: 'memory://' },
  ...(process.env.SLUICEGATE_TEST_REDIS ? [{ source: 'redis', url: process.env.SLUICEGATE_TEST_REDIS }] : []),
]

/** A prefix that nobody else has. */
export function prefix() {
  return `test-${randomUUID()}`
}

/**
 * Runs a program of test/programs to its end, for at most a minute.
 *
 * @param {string} program
 * @param {string[]} args
 * @returns {Promise<{ code: number | null, signal: string | null, out: string }>}
 */
export function run(program, ...args) {
  const path = fileURLToPath(new URL(`programs/${program}`, import.meta.url))
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [path, ...args], { timeout: 60_000, killSignal: 'SIGKILL' })
    let out = ''
    child.stdout.on('data', (data) => (out += data))
    child.stderr.on('data', (data) => (out += data))
    child.on('error', reject)
    child.on('close', (code, signal) => resolve({ code, signal, out: out.trim() }))
  })
}
