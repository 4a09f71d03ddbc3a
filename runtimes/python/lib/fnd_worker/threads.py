"""Serves a handler that is no coroutine.

A call runs in the main thread: that is fastest, and libraries expect it. While one runs, a second thread watches the
socket and gives what else arrives to a pool. The watcher is armed for that time only, and disarmed before the answer is
sent, so that calls one behind the other never wake it.
"""

import select
from _socket import MSG_DONTWAIT
from os import _exit
from threading import Condition, Lock, Thread

from fnd import BadRequest, Response

from .answer import failure, flush, is_answer, result
from .decode import PARSE
from .wire import ERROR, INVOKE, READY, RESULT, STOP

# Calls that may be in flight at once; `[pool] concurrency` says how many fnd uses.
CONCURRENCY = 64


def parts(content):
    """Splits an Invoke into head, payload and previous."""
    begin = 4 + int.from_bytes(content[:4], "little")
    head = PARSE(content[4:begin].decode())
    size, rest = head.get("data"), head.get("previous")
    end = begin + (size or 0)
    return head, None if size is None else content[begin:end], None if rest is None else content[end : end + rest]


class Server:
    def __init__(self, wire, handler):
        self.wire, self.handler = wire, handler
        self.reading = Lock()
        self.changed = Condition()
        self.busy = self.stopping = False
        self.waiting, self.running, self.idle = [], 0, 0
        self.watch = select.epoll()
        self.watch.register(wire.socket.fileno(), 0)

    def arm(self, events):
        self.watch.modify(self.wire.socket.fileno(), events)

    def serve(self):
        concurrency = CONCURRENCY
        try:
            Thread(target=self.watcher, name="fnd-watcher", daemon=True).start()
        except RuntimeError:
            # `limits.pids` leaves no room for a thread.
            concurrency = 1
        self.wire.send(0, READY, b'{"protocol":1,"concurrency":%d}' % concurrency)
        while not self.stopping:
            with self.reading:
                message = self.wire.next()
                while message is None and self.wire.fill():
                    message = self.wire.next()
                if message is None:
                    return
                self.busy = True
                self.dispatch()
            if message[0] == STOP:
                break
            self.arm(select.EPOLLIN | select.EPOLLONESHOT)
            answer = self.run(message)
            self.busy = False
            self.arm(0)
            self.wire.send(*answer)
        with self.changed:
            self.changed.wait_for(lambda: not self.running)

    def dispatch(self):
        """Gives the messages that were read to other threads. The caller holds the lock `reading`."""
        message = self.wire.next()
        while message is not None:
            if message[0] == STOP:
                self.stopping = True
            else:
                self.give(message)
            message = self.wire.next()

    def give(self, message):
        with self.changed:
            self.running += 1
            self.waiting.append(message)
            if self.idle >= len(self.waiting):
                self.changed.notify()
                return
        try:
            Thread(target=self.work, daemon=True).start()
        except RuntimeError as error:
            # `limits.pids` leaves no room for a thread: a thread that runs takes the call, or the call fails now.
            with self.changed:
                if message not in self.waiting:
                    return
                self.waiting.remove(message)
                self.running -= 1
            self.wire.send(*failed(message[1], error))

    def work(self):
        while True:
            with self.changed:
                self.idle += 1
                self.changed.wait_for(lambda: self.waiting)
                self.idle -= 1
                message = self.waiting.pop(0)
            self.wire.send(*self.run(message))
            with self.changed:
                self.running -= 1
                self.changed.notify_all()

    def watcher(self):
        while True:
            self.watch.poll()
            with self.reading:
                if not self.busy:
                    continue
                try:
                    if not self.wire.fill(MSG_DONTWAIT):
                        # fnd has closed the connection: no caller waits for the running calls.
                        _exit(0)
                except BlockingIOError:
                    pass
                self.dispatch()
            if self.busy:
                self.arm(select.EPOLLIN | select.EPOLLONESHOT)

    def run(self, message):
        _, call, content = message
        handler = self.handler
        try:
            value = handler.function(*handler.arguments(handler, self.wire, call, *parts(content)))
            if hasattr(value, "__await__"):
                value = wait_for(value)
            answer = call, RESULT, result(value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            answer = failed(call, error)
        flush()
        return answer


def failed(call, error):
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return call, RESULT, result(None)
    if isinstance(error, BadRequest):
        return call, RESULT, result(Response(str(error) + "\n", 400))
    if is_answer(error):
        try:
            return call, RESULT, result(error)
        except Exception as why:
            error = why
    return call, ERROR, failure(error, None)


def wait_for(value):
    """Runs an awaitable that a function which is no coroutine has returned."""
    import asyncio

    async def wait():
        return await value

    return asyncio.run(wait())


def serve(wire, handler):
    Server(wire, handler).serve()
