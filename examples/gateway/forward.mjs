// One request on its way to a service and back.

/**
 * @param {import('fastify').FastifyRequest} request
 * @param {import('fastify').FastifyReply} reply
 * @param {string} service Where it is.
 * @param {() => Promise<void>} failed Called before the client hears that the service has failed.
 */
export function forward(request, reply, service, failed) {
  return reply.from(service + request.url, {
    // What was admitted once is sent once.
    retryDelay: () => null,
    rewriteRequestHeaders: (_, headers) => ({
      ...headers,
      'x-api-key': undefined,
      'x-client': request.client,
    }),
    onResponse: (_, __, { statusCode, stream }) => {
      const done = statusCode < 500 ? Promise.resolve() : failed()
      done.then(() => reply.send(stream)).catch((error) => reply.send(error))
    },
    onError: (_, { error }) => {
      request.log.warn(error)
      failed()
        .then(() => reply.code(502).send({ error: 'the service did not answer' }))
        .catch((error) => reply.send(error))
    },
  })
}
