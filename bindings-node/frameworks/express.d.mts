export * from './express.js'
