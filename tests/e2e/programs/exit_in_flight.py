"""exit_in_flight.py URL WAY: ends an asyncio program while a hundred calls are under way."""

import asyncio
import sys

from sluicegate import aio

url, way = sys.argv[1:]


async def main() -> None:
    limit = aio.Limiter(url).limit("left", "1000/s")
    calls = [asyncio.ensure_future(limit.try_acquire(f"key {n}")) for n in range(100)]
    await asyncio.sleep(0)
    if way == "return":
        return
    if way == "exit":
        sys.exit(0)
    asyncio.get_running_loop().stop()  # "stop": the calls are neither awaited nor cancelled
    await asyncio.wait(calls)


if way == "stop":
    loop = asyncio.new_event_loop()
    left = loop.create_task(main())  # noqa: RUF006 - kept, since a loop holds its tasks only weakly
    loop.run_forever()
else:
    asyncio.run(main())
