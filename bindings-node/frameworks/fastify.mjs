// One module behind both doors.
import fastify from './fastify.js'

export const { rateLimit } = fastify
export default fastify.rateLimit
