// express_server.mjs URL SPEC PORT: an Express app that holds all requests together to one limit; /health is free.
import express from 'express'
import { Limiter } from 'sluicegate'
import { rateLimit } from 'sluicegate/express'

const [url, spec = '', port] = process.argv.slice(2)
const limiter = new Limiter(url, { timeoutMs: 10_000 })
const app = express()
app.get('/health', (_, response) => void response.json('well'))
app.use(rateLimit({ limit: limiter.limit('api', spec), key: 'everyone' }))
app.get('/', (_, response) => void response.send('hello'))
app.listen(Number(port), '127.0.0.1')
