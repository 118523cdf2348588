export * from './koa.js'
