'use strict'

const native = require('./native.js')
const { guard, typeError } = require('./error.js')
const { options } = require('./options.js')

class ClientAddress {
  #native

  constructor(given = undefined) {
    const known = options(given, 'trusted', 'header', 'ipv4Prefix', 'ipv6Prefix')
    const { trusted = [], header, ipv4Prefix, ipv6Prefix } = known
    if (!Array.isArray(trusted)) throw typeError('trusted must be an array of strings')
    this.#native = guard(() => new native.ClientAddress(trusted, header, ipv4Prefix, ipv6Prefix))
    this.header = this.#native.header
    Object.freeze(this)
  }

  key(peer, header = undefined) {
    // A socket that is gone, or a Unix socket, has no address.
    const at = peer ?? ''
    const values = header === undefined ? [] : Array.isArray(header) ? header : [header]
    if (typeof at !== 'string') throw typeError('peer must be a string or undefined')
    if (!values.every((value) => typeof value === 'string')) {
      throw typeError('header must be a string, an array of strings, or undefined')
    }
    return guard(() => this.#native.key(at, values))
  }
}

module.exports = { ClientAddress }
