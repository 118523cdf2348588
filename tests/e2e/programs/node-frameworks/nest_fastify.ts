// nest_fastify.js URL PORT: Nest on Fastify, where one guard and one filter are for all controllers.
import { Controller, Get, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import { Limiter } from 'sluicegate'
import { RateLimit, RateLimitFilter, RateLimitGuard } from 'sluicegate/nest'

const [url, port] = process.argv.slice(2)
const limiter = new Limiter(url, { timeoutMs: 10_000 })

@Controller()
class AppController {
  @Get()
  hello(): string {
    return 'hello'
  }

  @Get('costly')
  @RateLimit({ cost: 2, refusal: () => 'slow down' })
  costly(): string {
    return 'costly'
  }

  @Get('health')
  @RateLimit(false)
  health(): object {
    return limiter.status()
  }
}

@Module({ controllers: [AppController] })
class AppModule {}

async function main(): Promise<void> {
  const app = await NestFactory.create(AppModule, new FastifyAdapter(), { logger: false })
  app.useGlobalGuards(new RateLimitGuard({ limit: limiter.limit('api', '4/day') }))
  app.useGlobalFilters(new RateLimitFilter())
  await app.listen(Number(port))
}

main()
