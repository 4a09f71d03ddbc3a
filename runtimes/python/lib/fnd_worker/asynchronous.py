"""Serves `async def` handlers: any number of calls on one asyncio loop."""

import asyncio

from .answer import flush, result
from .run import failed, parts
from .wire import CANCEL, READY, RESULT, STOP

CONCURRENCY = 1000


class Server:
    def __init__(self, wire, handler):
        self.wire, self.handler = wire, handler
        self.loop = asyncio.get_running_loop()
        # By number. The loop keeps only weak references to its tasks.
        self.calls = {}
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
            elif message[0] == CANCEL:
                self.cancel(message[1])
            else:
                self.calls[message[1]] = self.loop.create_task(self.call(message))
            message = self.wire.next()
        if not alive:
            self.calls.clear()
            self.stop()

    def cancel(self, call):
        """Raises `CancelledError` where the handler waits. The call ends when the handler has ended."""
        task = self.calls.get(call)
        if task is not None:
            # A task that is cancelled before its first step would end without an answer.
            self.loop.call_soon(task.cancel)

    def stop(self):
        self.loop.remove_reader(3)
        if not self.over.done():
            self.over.set_result(None)

    async def call(self, message):
        _, call, content = message
        handler = self.handler
        try:
            answer = await self.answer(handler, call, content)
        finally:
            self.calls.pop(call, None)
        flush()
        self.wire.send(*answer)

    async def answer(self, handler, call, content):
        try:
            value = await handler.function(*handler.arguments(handler, self.wire, call, *parts(content)))
            return (call, RESULT, *result(value))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return failed(call, error)


async def main(wire, handler):
    server = Server(wire, handler)
    server.loop.add_reader(3, server.readable)
    wire.cancels = True
    wire.send(0, READY, b'{"protocol":1,"concurrency":%d,"cancel":true}' % CONCURRENCY)
    await server.over
    if server.calls:
        await asyncio.wait(server.calls.values())


def serve(wire, handler):
    asyncio.run(main(wire, handler))
