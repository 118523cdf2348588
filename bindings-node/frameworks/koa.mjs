// One module behind both doors.
import koa from './koa.js'

export const { rateLimit } = koa
