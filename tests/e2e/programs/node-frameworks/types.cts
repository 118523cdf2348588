// Is compiled, never run: the types as CommonJS sees them, and what they don't allow.
import { ClientAddress, type Decision, Limiter } from 'sluicegate'

import express = require('sluicegate/express')

import { rateLimit as fastify } from 'sluicegate/fastify'
import { rateLimitedFetch } from 'sluicegate/fetch'
import { rateLimit as hono } from 'sluicegate/hono'
import { rateLimit as koa } from 'sluicegate/koa'
import { RateLimit, RateLimitGuard } from 'sluicegate/nest'

const limiter = new Limiter()
const limit = limiter.limit('a', '1/s')
const refusal = (decision: Decision) => ({ remaining: decision.remaining })

export const right = [
  express.rateLimit({ limit, key: (request) => request.ip ?? 'none', cost: async () => 2n, refusal }),
  fastify,
  koa({ limit: (context) => (context.path === '/' ? limit : limit), key: new ClientAddress() }),
  hono({ limit, key: (context) => context.req.header('x') ?? 'none', legacyHeaders: true }),
  hono<{ Variables: { user: string } }>({ limit, key: (context) => context.get('user') }),
  new RateLimitGuard({ limit, key: (context) => context.getHandler().name }),
  RateLimit({ skip: async (context) => context.getType() !== 'http' }),
  RateLimit(false),
  rateLimitedFetch({ limit, timeoutMs: 1, heedRetryAfterMs: 1, key: (input) => String(input) })('http://a'),
]

export const wrong = [
  // @ts-expect-error: a limit is needed
  express.rateLimit({}),
  // @ts-expect-error: a text is no limit
  koa({ limit: '1/s' }),
  // @ts-expect-error: no such option
  hono({ limit, kee: 'k' }),
  // @ts-expect-error: a key is text or bytes
  express.rateLimit({ limit, key: () => 42 }),
  // @ts-expect-error: true is no option
  RateLimit(true),
  // @ts-expect-error: milliseconds are numbers
  rateLimitedFetch({ limit, timeoutMs: '1s' }),
]
