import type { Limit } from 'sluicegate'

declare module 'fastify' {
  interface FastifyRequest {
    /** Whose API key the request has. */
    client: string
  }

  interface FastifyContextConfig {
    /** What a route draws on, and how much of it. */
    quota?: { limit: Limit; cost: number }
  }
}
