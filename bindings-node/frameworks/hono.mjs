// One module behind both doors.
import hono from './hono.js'

export const { rateLimit } = hono
