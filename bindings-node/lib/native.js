'use strict'

// The platform binary. The package holds the one it was built with.
const { platform, arch } = process
const abis = { linux: ['-gnu', '-musl'], win32: ['-msvc'] }[platform] ?? ['']

function load() {
  const errors = []
  for (const abi of abis) {
    try {
      return require(`../sluicegate.${platform}-${arch}${abi}.node`)
    } catch (error) {
      errors.push(error)
    }
  }
  const tried = abis.map((abi) => `${platform}-${arch}${abi}`).join(' or ')
  // A binary that is there and fails to load says more than one that is not there.
  const cause = errors.find((error) => error.code !== 'MODULE_NOT_FOUND') ?? errors[0]
  throw new Error(`this package of sluicegate has no binary that runs on ${tried}`, { cause })
}

module.exports = load()
