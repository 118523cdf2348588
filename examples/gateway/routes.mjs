// What stands behind the gateway, and who may ask how much of it: in your gateway, its configuration.

/** What one client address may send at all, with an API key or without. */
export const PER_ADDRESS = '10/s burst 100'

/** What one API key may ask for. Two limits in one spec must both admit. */
export const QUOTAS = {
  read: '20/s burst 40',
  write: '5/s; 60/minute',
  search: '30/minute',
}

/**
 * @typedef {object} Route
 * @property {'GET' | 'POST'} method
 * @property {string} path
 * @property {'orders' | 'search'} service
 * @property {keyof typeof QUOTAS} quota Several routes may draw on one.
 * @property {number} [cost] How much of it a request takes; 1 unless said.
 */

/** @type {Route[]} */
export const ROUTES = [
  { method: 'GET', path: '/orders/:id', service: 'orders', quota: 'read' },
  { method: 'POST', path: '/orders', service: 'orders', quota: 'write' },
  { method: 'GET', path: '/search', service: 'search', quota: 'search' },
  { method: 'GET', path: '/search/everywhere', service: 'search', quota: 'search', cost: 10 },
]

/** Whose API key is whose. */
export const CLIENTS = new Map([
  ['key-of-shop', 'shop'],
  ['key-of-app', 'app'],
])
