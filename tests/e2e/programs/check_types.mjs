// What `tsc --project .` does, but of all declarations it checks only the package's own: checking those of
// the frameworks takes two thirds of the time.
//
//     node check_types.mjs DIRECTORY    one whose node_modules have the compiler
import { createRequire } from 'node:module'
import { resolve } from 'node:path'

const ts = createRequire(resolve(process.argv[2], 'package.json'))('typescript')

const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: fail }
const config = ts.getParsedCommandLineOfConfigFile('tsconfig.json', undefined, host)
const program = ts.createProgram(config.fileNames, config.options)
const files = program.getSourceFiles()
const ours = files.filter(({ fileName }) => fileName.includes('/node_modules/sluicegate/'))
const programs = config.fileNames.map((name) => program.getSourceFile(name))
if (ours.length < 7) fail(`only ${ours.length} declarations of the package are used`)

const found = [
  ...config.errors,
  ...program.getOptionsDiagnostics(),
  ...program.getGlobalDiagnostics(),
  ...[...ours, ...programs].flatMap((file) => [
    ...program.getSyntacticDiagnostics(file),
    ...program.getSemanticDiagnostics(file),
  ]),
  // Of all together, it would check all.
  ...programs.flatMap((file) => program.emit(file).diagnostics),
]
if (found.length > 0) {
  const names = {
    getCanonicalFileName: (name) => name,
    getCurrentDirectory: () => '',
    getNewLine: () => '\n',
  }
  fail(ts.formatDiagnostics(found, names))
}

function fail(why) {
  console.error(why)
  process.exit(1)
}
