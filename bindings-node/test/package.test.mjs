// The package as it is published: both doors, its types, and nothing but what it needs.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import * as esm from 'sluicegate'
import ts from 'typescript'

const execute = promisify(execFile)
const root = fileURLToPath(new URL('..', import.meta.url))
const load = createRequire(import.meta.url)

test('import and require give the same classes', () => {
  const cjs = load('sluicegate')
  assert.deepEqual(Object.keys(cjs).sort(), Object.keys(esm).sort())
  for (const [name, value] of Object.entries(esm)) assert.equal(cjs[name], value, name)
})

/** What the package lets in beside its root: one part for each framework, and one for fetch. */
const parts = Object.keys(load('../package.json').exports)
  .filter((door) => door !== '.' && door !== './package.json')
  .map((door) => door.slice(2))

test('import and require of each part give the same', async () => {
  assert.deepEqual(parts, ['express', 'fastify', 'koa', 'hono', 'nest', 'fetch'])
  // Nest's needs Nest; tests/e2e has it.
  for (const part of parts.filter((part) => part !== 'nest')) {
    const cjs = load(`sluicegate/${part}`)
    const module = await import(`sluicegate/${part}`)
    assert.deepEqual(Object.keys(cjs).sort(), Object.keys(module).sort(), part)
    for (const [name, value] of Object.entries(module)) assert.equal(cjs[name], value, `${part} ${name}`)
  }
})

test('no framework is a dependency that npm would install', () => {
  const { dependencies = {}, peerDependencies, peerDependenciesMeta } = load('../package.json')
  assert.deepEqual(dependencies, {})
  for (const name of Object.keys(peerDependencies))
    assert.deepEqual(peerDependenciesMeta[name], { optional: true })
})

test('the lock file names no registry', async () => {
  assert.doesNotMatch(await readFile(join(root, 'package-lock.json'), 'utf8'), /"resolved"/)
})

describe('in an empty project', { timeout: 300_000 }, () => {
  /** @type {string} */
  let project

  /** @param {string} command @param {string[]} args */
  async function run(command, ...args) {
    // What npm set for this run must not lead the inner npm back here.
    const env = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name))
    const options = { cwd: project, env: Object.fromEntries(env), timeout: 240_000 }
    return (await execute(command, args, options)).stdout.trim()
  }

  before(async () => {
    project = await mkdtemp(join(tmpdir(), 'sluicegate-npm-'))
    await run('npm', 'pack', root, '--silent', '--pack-destination', project)
    await writeFile(join(project, 'package.json'), '{ "name": "outside", "private": true }')
    await run('npm', 'install', '--offline', '--ignore-scripts', './sluicegate-0.1.0.tgz')
  })
  after(() => rm(project, { recursive: true, force: true }))

  test('it is whole: entry points, types, licence terms, one binary, no scripts to run at install', async () => {
    const at = join(project, 'node_modules', 'sluicegate')
    const manifest = JSON.parse(await readFile(join(at, 'package.json'), 'utf8'))
    assert.equal(manifest.license, 'MIT OR Apache-2.0')
    assert.deepEqual(manifest.dependencies ?? {}, {})
    for (const script of ['preinstall', 'install', 'postinstall', 'prepare']) {
      assert.equal(manifest.scripts[script], undefined)
    }
    const files = (await run('find', at, '-type', 'f', '-printf', '%P\n')).split('\n')
    assert.equal(files.filter((file) => file.endsWith('.node')).length, 1)
    for (const doors of Object.values(manifest.exports)) {
      for (const file of typeof doors === 'string' ? [doors] : Object.values(doors).flatMap(Object.values)) {
        assert.ok(files.includes(file.slice(2)), file)
      }
    }
    for (const file of ['LICENSE-MIT', 'LICENSE-APACHE', 'README.md']) assert.ok(files.includes(file), file)
    assert.ok(
      !files.some((file) => /(^|\/)test\/|\.rs$|biome|tsconfig|package-lock|native\.d\.ts/.test(file)),
      files.join(' '),
    )
  })

  test('import, require, and the quickstart as it is written', async () => {
    const use =
      "new Limiter().limit('a', '1/s').tryAcquire('k').then((d) => console.log(d.allowed, d.source))"
    await writeFile(join(project, 'a.mjs'), `import { Limiter } from 'sluicegate'\n${use}`)
    await writeFile(join(project, 'b.cjs'), `const { Limiter } = require('sluicegate')\n${use}`)
    assert.equal(await run(process.execPath, 'a.mjs'), 'true memory')
    assert.equal(await run(process.execPath, 'b.cjs'), 'true memory')
    const readme = await readFile(join(root, 'README.md'), 'utf8')
    const quickstart = readme.match(/```js\n([\s\S]*?)```/)?.[1] ?? ''
    await writeFile(join(project, 'c.mjs'), quickstart.replace('redis://localhost:6379', 'memory://'))
    assert.equal(await run(process.execPath, 'c.mjs'), 'go on, 199 left')
  })

  test('each part from outside, without its framework', async () => {
    const use = parts.filter((part) => part !== 'nest')
    const print = (/** @type {string} */ how) =>
      use.map(
        (part) =>
          `console.log(typeof (${how}('sluicegate/${part}')).${part === 'fetch' ? 'rateLimitedFetch' : 'rateLimit'})`,
      )
    await writeFile(join(project, 'f.mjs'), print('await import').join('\n'))
    await writeFile(join(project, 'g.cjs'), print('require').join('\n'))
    const all = use.map(() => 'function').join('\n')
    assert.equal(await run(process.execPath, 'f.mjs'), all)
    assert.equal(await run(process.execPath, 'g.cjs'), all)
  })

  test('types of each part, where a compiler knows nothing of exports', () => {
    const options = { moduleResolution: ts.ModuleResolutionKind.Node10 }
    for (const part of ['', ...parts.map((part) => `/${part}`)]) {
      const from = join(project, 'main.ts')
      const { resolvedModule } = ts.resolveModuleName(`sluicegate${part}`, from, options, ts.sys)
      const file = part === '' ? 'index.d.ts' : `frameworks${part}.d.ts`
      assert.equal(resolvedModule?.resolvedFileName, join(project, 'node_modules', 'sluicegate', file))
    }
  })

  test('types for both, under --strict and without skipLibCheck', async () => {
    const source = await readFile(new URL('types.ts', import.meta.url), 'utf8')
    await writeFile(join(project, 'd.mts'), source)
    await writeFile(join(project, 'e.cts'), source)
    const tsc = load.resolve('typescript/bin/tsc')
    const types = join(root, 'node_modules', '@types')
    const flags = ['--strict', '--noEmit', '--module', 'nodenext', '--target', 'es2022', '--types', 'node']
    await run(process.execPath, tsc, ...flags, '--typeRoots', types, 'd.mts', 'e.cts')
  })
})
