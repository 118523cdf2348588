// Bad input gets an error that names what is allowed, or a right decision; never a crash, a hang,
// or a changed limit.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Limit, Limiter, ManualClock, SluicegateError } from 'sluicegate'
import { prefix, stores } from './helpers.mjs'

/** @param {string} code @param {RegExp} says */
function error(code, says) {
  /** @param {SluicegateError} error */
  return (error) => {
    assert.ok(error instanceof SluicegateError, String(error))
    assert.equal(error.name, 'SluicegateError')
    assert.equal(error.code, code)
    assert.match(error.message, says)
    return true
  }
}

/** @param {RegExp} says */
function wrongType(says) {
  /** @param {TypeError & { code?: string }} error */
  return (error) => {
    assert.ok(error instanceof TypeError, String(error))
    assert.equal(error.code, 'ARGUMENT')
    assert.match(error.message, says)
    return true
  }
}

/** Values of types that no one promised to take. @type {any[]} */
const strange = [null, 7, 7n, true, {}, [], Symbol('x'), () => 1, new Date()]

describe('specs', () => {
  const limiter = new Limiter()
  const nonsense = ['100/', '0/s', '5/fortnight', '-1/s', '', 'é', '\0', '1/s'.repeat(350_000)]
  for (const spec of nonsense) {
    test(JSON.stringify(spec.slice(0, 20)), () => {
      assert.throws(() => limiter.limit('a', spec), error('SPEC', /expected|must|allowed/))
    })
  }
  test('of a wrong type', () => {
    for (const spec of [...strange, undefined]) {
      assert.throws(() => limiter.limit('a', spec), wrongType(/^spec must be/))
      assert.throws(() => limiter.limit(spec, '1/s'), wrongType(/^name must be/))
    }
  })
  test('names', () => {
    assert.throws(() => limiter.limit('', '1/s'), error('ARGUMENT', /name/))
    assert.throws(() => limiter.limit('x'.repeat(1_000_000), '1/s'), error('ARGUMENT', /name/))
    assert.throws(() => limiter.limit('\ud800', '1/s'), wrongType(/well-formed/))
  })
})

for (const { source, url } of stores) {
  describe(`costs and keys on ${source}`, () => {
    const limiter = new Limiter(url, { prefix: prefix(), timeoutMs: 5000, denyCacheMs: 0 })
    const limit = limiter.limit('a', '10/day')

    test('a bad cost changes nothing', async () => {
      const bad = [-1, Number.NaN, 2 ** 63, 1.5, 1e300, Number.POSITIVE_INFINITY, -1n, 2n ** 63n, 2n ** 200n]
      for (const cost of bad) {
        const verbs = [limit.tryAcquire, limit.acquire, limit.reserve, limit.refund]
        for (const verb of verbs) {
          await assert.rejects(
            verb.call(limit, 'cost', cost),
            error('ARGUMENT', /cost .* from 0 to 9007199254740992/),
          )
        }
        await assert.rejects(limiter.tryAcquireAll([[limit, 'cost', cost]]), error('ARGUMENT', /cost/))
      }
      for (const cost of [null, '1', true, Symbol('x'), () => 1]) {
        await assert.rejects(limit.tryAcquire('cost', /** @type {any} */ (cost)), wrongType(/^cost must be/))
      }
      assert.equal((await limit.peek('cost')).remaining, 10)
    })

    test('a cost above the capacity is a refusal for ever', async () => {
      for (const cost of [11, 2 ** 53, 2n ** 53n]) {
        const { allowed, retryAfterMs } = await limit.tryAcquire('cost', cost)
        assert.deepEqual([allowed, retryAfterMs], [false, null])
      }
      assert.equal((await limit.tryAcquire('cost', 10n)).remaining, 0)
    })

    test('an empty key', async () => {
      await assert.rejects(limit.tryAcquire(''), error('ARGUMENT', /key must not be empty/))
      await assert.rejects(limit.peek(new Uint8Array()), error('ARGUMENT', /key must not be empty/))
    })

    test('a key of a wrong type', async () => {
      const others = [new Float64Array(2), new ArrayBuffer(2), new DataView(new ArrayBuffer(2))]
      for (const key of [...strange, ...others, undefined]) {
        await assert.rejects(limit.tryAcquire(/** @type {any} */ (key)), wrongType(/^key must be/))
        await assert.rejects(
          limiter.tryAcquireAll([[limit, /** @type {any} */ (key)]]),
          wrongType(/^key must be/),
        )
      }
    })

    test('a lone surrogate is refused, however long the key; U+FFFD itself is a key', async () => {
      for (const key of ['\ud800', 'a\udfff', `\ufffd\ud800`, `${'x'.repeat(1000)}\ud800`, '\udc00\ud800']) {
        await assert.rejects(limit.tryAcquire(key), wrongType(/lone surrogate/))
      }
      for (const key of ['\ufffd', `\ufffd${'x'.repeat(1000)}`]) {
        assert.equal((await limit.tryAcquire(key)).remaining, 9)
      }
    })

    test('keys that look odd are keys, each its own', async () => {
      const keys = [
        '\0',
        'a\0b',
        'a\0',
        '{',
        '}',
        '{a}',
        '🙂',
        '🙂'.repeat(70),
        'a:b',
        'a b',
        '\n',
        "'",
        '*',
        '\u0080',
      ]
      keys.push(...[250, 251, 252, 253, 255, 256, 257, 1 << 20].map((length) => 'k'.repeat(length)))
      const bytes = [[0xff], [0xff, 0xfe], [0], [0xc0, 0x80]].map((key) => new Uint8Array(key))
      const decisions = await Promise.all([...keys, ...bytes].map((key) => limit.tryAcquire(key)))
      // '\0' and the byte 0 are one key, so one of the two got the second unit.
      const remaining = decisions.map((decision) => decision.remaining).sort()
      assert.deepEqual(remaining, [8, ...Array(keys.length + bytes.length - 1).fill(9)])
    })

    test('a string and its UTF-8 are one key; a view sees only its part', async () => {
      await limit.tryAcquire('ключ')
      assert.equal((await limit.tryAcquire(Buffer.from('ключ'))).remaining, 8)
      const view = new Uint8Array(new TextEncoder().encode('xключx').buffer, 1, 8)
      assert.equal((await limit.tryAcquire(view)).remaining, 7)
    })

    test('options of a call', async () => {
      for (const timeoutMs of [-1, Number.NaN, Number.POSITIVE_INFINITY, 1e15]) {
        await assert.rejects(limit.acquire('o', { timeoutMs }), error('ARGUMENT', /timeoutMs must be 0 to/))
        await assert.rejects(
          limit.reserve('o', 1, { maxWaitMs: timeoutMs }),
          error('ARGUMENT', /maxWaitMs must be 0 to/),
        )
      }
      const given = /** @type {any[]} */ ([
        { timeout: 1 },
        { maxWaitMs: 1 },
        null,
        5,
        { timeoutMs: '1' },
        { signal: {} },
      ])
      for (const options of given) {
        await assert.rejects(limit.acquire('o', 1, options), wrongType(/option|timeoutMs|signal/))
        await assert.rejects(limit.hold('o', options), wrongType(/option|timeoutMs|signal/))
      }
      assert.equal((await limit.peek('o')).remaining, 10)
    })

    test('a verb that the algorithm lacks', async () => {
      await assert.rejects(limit.hold('k'), error('UNSUPPORTED', /concurrency/))
      await assert.rejects(
        limiter.limit('c', 'concurrency 1 ttl 1s').acquire('k'),
        error('UNSUPPORTED', /hold/),
      )
    })

    test('tryAcquireAll takes a list of entries', async () => {
      const other = new Limiter().limit('a', '1/s')
      for (const entries of [...strange, undefined, [5], [[]], [[{}, 'k']], ['ab'], [null]]) {
        if (Array.isArray(entries) && entries.length === 0) continue
        await assert.rejects(limiter.tryAcquireAll(entries), wrongType(/entries|entry/))
      }
      await assert.rejects(limiter.tryAcquireAll([]), error('ARGUMENT', /1 to 64/))
      await assert.rejects(limiter.tryAcquireAll([[other, 'k']]), error('ARGUMENT', /another limiter/))
      await assert.rejects(limiter.tryAcquireAll([[limit, 'k'], [limit, 'k']]), error('ARGUMENT', /twice/)) // biome-ignore format: one case a line
    })
  })
}

describe('limiters and clocks', () => {
  test('urls', () => {
    for (const url of ['', 'http://x', 'redis://', 'x'.repeat(1_000_000), 'redis://:secret@h:99999']) {
      assert.throws(() => new Limiter(url), (thrown) => !String(thrown).includes('secret') && error('CONFIG', /./)(/** @type {any} */ (thrown))) // biome-ignore format: one case a line
    }
    for (const url of strange) assert.throws(() => new Limiter(url), wrongType(/^url must be/))
  })

  test('options', () => {
    /** @type {[any, string, RegExp][]} */
    const bad = [
      [{ timeoutMs: 0 }, 'CONFIG', /timeout must be 0.001 to 60 seconds/],
      [{ timeoutMs: Number.NaN }, 'CONFIG', /timeoutMs must be/],
      [{ timeoutMs: 1e300 }, 'CONFIG', /timeoutMs must be/],
      [{ denyCacheMs: -1 }, 'CONFIG', /denyCacheMs must be/],
      [{ maxKeys: 1.5 }, 'CONFIG', /max_keys must be/],
      [{ maxKeys: -1 }, 'CONFIG', /max_keys must be/],
      [{ maxWaiting: 63 }, 'CONFIG', /max_waiting must be/],
      [{ maxKeys: Number.NaN }, 'CONFIG', /max_keys must be/],
      [{ prefix: '' }, 'CONFIG', /prefix/],
      [{ prefix: 'a{b' }, 'CONFIG', /prefix/],
      [{ onOutage: 'panic' }, 'CONFIG', /share, allow, deny, raise/],
    ]
    for (const [options, code, says] of bad) {
      assert.throws(() => new Limiter('memory://', options), error(code, says), JSON.stringify(options))
    }
    /** @type {any[]} */
    const unknown = [{ on_outage: 'deny' }, { timeout: 1 }, { toString: 1 }]
    /** @type {any[]} */
    const typed = [
      { timeoutMs: '1' },
      { prefix: 1 },
      { maxKeys: 1n },
      { clock: {} },
      { clock: null },
      { onOutage: 1 },
    ]
    for (const options of [...unknown, ...typed, null, 'x', 5]) {
      assert.throws(() => new Limiter('memory://', options), wrongType(/must be|there is no option/))
    }
    assert.throws(
      () => new Limiter().limit('a', '1/s', { onOutage: /** @type {any} */ ('x') }),
      error('CONFIG', /share/),
    )
  })

  test('a clock', () => {
    const clock = new ManualClock(1.5)
    for (const ms of [-1, Number.NaN, Number.POSITIVE_INFINITY, 1e300]) {
      assert.throws(() => clock.advance(ms), error('ARGUMENT', /ms must be 0 to/))
      assert.throws(() => clock.set(ms), error('ARGUMENT', /ms must be 0 to/))
      assert.throws(() => new ManualClock(ms), error('ARGUMENT', /startMs must be 0 to/))
    }
    for (const ms of strange.filter((value) => typeof value !== 'number')) {
      assert.throws(() => clock.advance(ms), wrongType(/^ms must be/))
    }
    assert.equal(clock.now(), 1.5)
  })

  test('what only this package makes', () => {
    assert.throws(() => Reflect.construct(Limit, []), wrongType(/limiter\.limit/))
    assert.throws(() => Limit.prototype.peek.call(/** @type {any} */ ({}), 'k'), TypeError)
    assert.throws(() => /** @type {any} */ (Limiter)(), TypeError)
  })
})
