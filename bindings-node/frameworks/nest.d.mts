export * from './nest.js'
