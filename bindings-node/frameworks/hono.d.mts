export * from './hono.js'
