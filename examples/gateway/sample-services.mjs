// Two services for a gateway that has none behind it: each says what it was asked, and fails when it is told to.
import Fastify from 'fastify'

/** @param {string} name */
async function service(name) {
  const app = Fastify()
  let served = 0
  app.all('/*', async (request, reply) => {
    served += 1
    if (/\bfail\b/.test(request.url)) return reply.code(503).send({ error: `${name} is not well` })
    if (/\bhang-up\b/.test(request.url)) return request.raw.destroy()
    return { service: name, served, asked: request.url, client: request.headers['x-client'] }
  })
  return { url: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
}

export async function sampleServices() {
  const [orders, search] = await Promise.all([service('orders'), service('search')])
  return { orders, search }
}
