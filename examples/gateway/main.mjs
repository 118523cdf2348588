// Starts the gateway on PORT, with the limits at REDIS_URL or in this process's memory, in front of ORDERS_URL and
// SEARCH_URL or of two samples. TRUSTED_PROXIES are addresses and networks, with spaces between.
import { Limiter } from 'sluicegate'
import { gateway } from './gateway.mjs'
import { sampleServices } from './sample-services.mjs'

const {
  PORT = '3000',
  HOST = '127.0.0.1',
  REDIS_URL,
  ORDERS_URL,
  SEARCH_URL,
  TRUSTED_PROXIES = '',
} = process.env

const limiter = new Limiter(REDIS_URL, { onEvent: ({ message }) => console.error(message) })
const samples = await sampleServices()
const app = await gateway({
  limiter,
  services: { orders: ORDERS_URL ?? samples.orders.url, search: SEARCH_URL ?? samples.search.url },
  trusted: TRUSTED_PROXIES.split(' ').filter(Boolean),
})
app.addHook('onClose', async () => {
  await Promise.all([samples.orders.close(), samples.search.close()])
  limiter.close()
})
console.log('the gateway listens at', await app.listen({ port: Number(PORT), host: HOST }))

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => app.close())
