// index.d.ts is written by hand. Here it is held to the module, name by name, both ways; and its
// words to those of the core.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import * as sluicegate from 'sluicegate'
import ts from 'typescript'

const load = createRequire(import.meta.url)
const { words } = load('../lib/native.js')
const record = load('../lib/record.js')
const { Limiter, ManualClock } = sluicegate

const path = fileURLToPath(new URL('../index.d.ts', import.meta.url))
const declarations = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true)

/** @type {Map<string, ts.ClassDeclaration>} */
const classes = new Map()
/** @type {Map<string, ts.InterfaceDeclaration>} */
const interfaces = new Map()
/** @type {Map<string, ts.TypeAliasDeclaration>} */
const aliases = new Map()
/** @type {Set<string>} */
const constants = new Set()
for (const statement of declarations.statements) {
  if (ts.isClassDeclaration(statement) && statement.name) classes.set(statement.name.text, statement)
  else if (ts.isInterfaceDeclaration(statement)) interfaces.set(statement.name.text, statement)
  else if (ts.isTypeAliasDeclaration(statement)) aliases.set(statement.name.text, statement)
  else if (ts.isVariableStatement(statement))
    for (const { name } of statement.declarationList.declarations) constants.add(name.getText())
  else assert.fail(`a declaration that is not looked at: ${statement.getText()}`)
}

/** @param {string} name */
function union(name) {
  const texts =
    aliases
      .get(name)
      ?.type.getText()
      .match(/'[^']+'/g) ?? []
  return texts.map((text) => text.slice(1, -1)).sort()
}

/** @param {string} name */
function fields(name) {
  return [...(interfaces.get(name)?.members ?? [])].map((member) => member.name?.getText()).sort()
}

/** The names that an object of the class has: its own and its class's. @param {any} object */
function namesOf(object) {
  const prototype = Object.getPrototypeOf(object)
  const inherited = Object.getPrototypeOf(prototype)
  const own = object instanceof Error ? Object.keys(object) : Reflect.ownKeys(object)
  const names = [...own, ...Reflect.ownKeys(prototype)]
  const known = new Set(['constructor', 'name', ...(inherited instanceof Error ? Object.keys(object) : [])])
  return names.filter((name) => !known.has(String(name))).map((name) => label(name))
}

/** @param {string | symbol} name */
function label(name) {
  if (name === Symbol.dispose) return '[Symbol.dispose]'
  if (name === Symbol.asyncDispose) return '[Symbol.asyncDispose]'
  return String(name)
}

test('every class and constant is exported, and nothing else is', () => {
  assert.deepEqual([...classes.keys(), ...constants].sort(), Object.keys(sluicegate).sort())
})

test('every class has the members that are declared, and no others', async () => {
  const limiter = new Limiter()
  const limit = limiter.limit('a', 'concurrency 1 ttl 1s')
  const permit = await limit.hold('k')
  const objects = {
    Limiter: limiter,
    Limit: limit,
    Permit: permit,
    ManualClock: new ManualClock(),
    ClientAddress: new sluicegate.ClientAddress(),
    SluicegateError: new sluicegate.SluicegateError('SPEC', ''),
  }
  for (const [name, object] of Object.entries(objects)) {
    const members = [...(classes.get(name)?.members ?? [])].filter(
      (member) => !ts.isConstructorDeclaration(member),
    )
    const declared = new Set(members.map((member) => String(member.name?.getText())))
    declared.delete('name')
    assert.deepEqual([...new Set(namesOf(object))].sort(), [...declared].sort(), name)
  }
  assert.equal(limit.name, 'a')
  const refusal = new sluicegate.RateLimited(permit.decision)
  assert.deepEqual(Object.keys(refusal).sort(), ['code', 'decision'])
})

test('values have the fields that are declared', async () => {
  const limiter = new Limiter()
  assert.deepEqual(Object.keys(await limiter.limit('a', '1/s').peek('k')).sort(), fields('Decision'))
  assert.deepEqual(Object.keys(limiter.status()).sort(), fields('Status'))
})

test('options are those that are declared', async () => {
  const limiter = new Limiter()
  const limit = limiter.limit('a', '1/s')
  /** @type {any} */
  const unknown = { unknown: 1 }
  /** @type {[string, () => unknown][]} */
  const takers = [
    ['LimiterOptions', () => new Limiter('memory://', unknown)],
    ['LimitOptions', () => limiter.limit('a', '1/s', unknown)],
    ['WaitOptions', () => limit.acquire('k', unknown)],
    ['WaitOptions', () => limit.hold('k', unknown)],
    ['ReserveOptions', () => limit.reserve('k', unknown)],
    ['ClientAddressOptions', () => new sluicegate.ClientAddress(unknown)],
    ['GuardOptions', () => limit.guard(() => {}, unknown)],
    ['HttpHeadersOptions', () => limiter.httpHeaders([], unknown)],
  ]
  for (const [name, take] of takers) {
    await assert.rejects(
      async () => take(),
      (/** @type {Error} */ error) => {
        const names = error.message
          .match(/only (.*)$/)?.[1]
          ?.split(', ')
          .sort()
        assert.deepEqual(names, fields(name), name)
        return true
      },
    )
  }
})

test('every part exports what it declares, and takes the options that it declares', async () => {
  /** @param {string} name */
  const source = (name) => {
    const file = fileURLToPath(new URL(`../frameworks/${name}.d.ts`, import.meta.url))
    return ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true)
  }
  /** @param {string} file @param {string} name */
  const members = (file, name) => {
    const found = source(file).statements.find(
      (each) => ts.isInterfaceDeclaration(each) && each.name.text === name,
    )
    assert.ok(found && ts.isInterfaceDeclaration(found), name)
    for (const member of found.members)
      assert.ok(ts.getJSDocCommentsAndTags(member).length > 0, member.getText())
    return found.members.map((member) => member.name?.getText()).sort()
  }
  for (const part of ['express', 'fastify', 'koa', 'hono', 'fetch']) {
    const declared = source(part).statements.flatMap((each) => {
      if (ts.isFunctionDeclaration(each)) return [String(each.name?.text)]
      if (ts.isExportAssignment(each)) return ['default']
      return ts.isVariableStatement(each)
        ? each.declarationList.declarations.map((one) => one.name.getText())
        : []
    })
    assert.deepEqual(Object.keys(load(`../frameworks/${part}.js`)).sort(), declared.sort(), part)
  }
  const limit = new Limiter().limit('a', '1/s')
  const takers = /** @type {const} */ ([
    ['shared', 'RateLimitOptions', load('../frameworks/express.js').rateLimit],
    ['fetch', 'RateLimitedFetchOptions', load('../frameworks/fetch.js').rateLimitedFetch],
  ])
  for (const [file, name, take] of takers) {
    assert.throws(
      () => take({ limit, unknown: 1 }),
      (/** @type {Error} */ error) => {
        assert.deepEqual(
          error.message
            .match(/only (.*)$/)?.[1]
            ?.split(', ')
            .sort(),
          members(file, name),
        )
        return true
      },
    )
  }
})

test("the words are the core's", () => {
  const { codes, sources, onOutage, states, forwardedHeaders, events } = words()
  assert.deepEqual(union('EventKind'), [...events].sort())
  assert.deepEqual(union('ForwardedHeader'), [...forwardedHeaders].sort())
  assert.deepEqual(union('ErrorCode'), [...codes, 'RATE_LIMITED'].sort())
  assert.deepEqual(union('Source'), [...sources].sort())
  assert.deepEqual(union('OnOutage'), [...onOutage].sort())
  assert.deepEqual(union('StoreState'), [...states].sort())
})

test('every source comes out of a record, and every mode goes in', () => {
  const { sources, onOutage } = words()
  for (const [place, source] of sources.entries()) {
    for (const allowed of [false, true]) {
      const tag = place * 17 + (allowed ? 8 : 0)
      const cells = [tag, 5, 4, allowed ? -1 : 1.5, 2, 3]
      const decision = record.decision(cells, 0)
      assert.deepEqual(record.numbers(decision), cells)
      assert.deepEqual(decision, {
        allowed,
        limit: 5,
        remaining: 4,
        retryAfterMs: allowed ? null : 1.5,
        resetAfterMs: 2,
        waitMs: 3,
        source,
        rule: place,
      })
    }
  }
  for (const mode of onOutage)
    new Limiter('memory://', { onOutage: mode }).limit('a', '1/s', { onOutage: mode })
})

test("every code of the binary's becomes an error of that code", () => {
  const { fromNative } = load('../lib/error.js')
  for (const code of words().codes) {
    const error = fromNative(code, 'why')
    assert.ok(error instanceof sluicegate.SluicegateError)
    assert.deepEqual([error.code, error.message], [code, 'why'])
  }
  assert.ok(fromNative('TYPE', 'why') instanceof TypeError)
  const unknown = fromNative('GenericFailure', 'why', new Error('why'))
  assert.deepEqual([unknown.code, unknown.message], ['INTERNAL', 'why'])
})

test('everything that is declared is documented', () => {
  for (const declaration of [...classes.values(), ...interfaces.values(), ...aliases.values()]) {
    const members = ts.isTypeAliasDeclaration(declaration) ? [] : [...declaration.members]
    const documented = new Set()
    for (const node of [declaration, ...members]) {
      const name = `${declaration.name?.getText()}.${node.name?.getText() ?? ''}`
      const hidden = ts.isConstructorDeclaration(node) && node.modifiers !== undefined
      // Of overloads, the first says it.
      if (!hidden && !documented.has(name)) assert.ok(ts.getJSDocCommentsAndTags(node).length > 0, name)
      documented.add(name)
    }
  }
})
