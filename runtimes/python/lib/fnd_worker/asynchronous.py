"""Serves `async def` handlers: any number of calls on one asyncio loop."""

import asyncio

from .answer import flush, result
from .run import failed, parts
from .wire import READY, RESULT, STOP

CONCURRENCY = 1000


class Server:
    def __init__(self, wire, handler):
        self.wire, self.handler = wire, handler
        self.loop = asyncio.get_running_loop()
        # The loop keeps only weak references to its tasks.
        self.calls = set()
        self.over = self.loop.create_future()

    def readable(self):
        try:
            alive = self.wire.fill(self.wire.read_now)
        except BlockingIOError:
            return
        message = self.wire.next()
        while message is not None:
            if message[0] == STOP:
                self.stop()
            else:
                task = self.loop.create_task(self.call(message))
                self.calls.add(task)
                task.add_done_callback(self.calls.discard)
            message = self.wire.next()
        if not alive:
            self.calls.clear()
            self.stop()

    def stop(self):
        self.loop.remove_reader(3)
        if not self.over.done():
            self.over.set_result(None)

    async def call(self, message):
        _, call, content = message
        handler = self.handler
        try:
            value = await handler.function(*handler.arguments(handler, self.wire, call, *parts(content)))
            answer = (call, RESULT, *result(value))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            answer = failed(call, error)
        flush()
        self.wire.send(*answer)


async def main(wire, handler):
    server = Server(wire, handler)
    server.loop.add_reader(3, server.readable)
    wire.send(0, READY, b'{"protocol":1,"concurrency":%d}' % CONCURRENCY)
    await server.over
    if server.calls:
        await asyncio.wait(server.calls)


def serve(wire, handler):
    asyncio.run(main(wire, handler))
