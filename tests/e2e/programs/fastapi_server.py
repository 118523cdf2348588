"""fastapi_server.py URL SPEC PORT: holds all requests together to one limit; /health is free."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, Response
from sluicegate import aio

url, spec, port = sys.argv[1:]
limiter = aio.Limiter(url, timeout=10)
limit = limiter.limit("api", spec)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    yield
    limiter.close()


app = FastAPI(lifespan=lifespan)


@app.get("/health")
async def health() -> str:
    return "well"


@app.get("/")
async def hello() -> Response:
    decision = await limit.try_acquire("everyone")
    headers = limit.http_headers(decision)
    if decision:
        return Response("hello", headers=headers)
    problem = limit.http_problem(decision)
    return Response(problem, aio.HTTP_STATUS, headers, aio.HTTP_PROBLEM_CONTENT_TYPE)


uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")
