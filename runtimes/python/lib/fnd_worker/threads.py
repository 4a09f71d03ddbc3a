"""Serves a handler that is no coroutine.

A call runs in the main thread: that is fastest, and libraries expect it. While one runs, a second thread watches the
socket and gives what else arrives to a pool. The watcher is armed for that time only, and disarmed before the answer is
sent, so that calls one behind the other never wake it.
"""

import select
from os import _exit
from threading import Condition, Lock, Thread

from .run import failed, run
from .wire import READY, STOP

# Calls that may be in flight at once; `[pool] concurrency` says how many fnd uses.
CONCURRENCY = 64


class Server:
    def __init__(self, wire, handler):
        self.wire, self.handler = wire, handler
        self.reading = Lock()
        self.changed = Condition()
        self.busy = self.stopping = False
        self.waiting, self.running, self.idle = [], 0, 0
        self.watch = select.epoll()
        self.watch.register(wire.descriptor, 0)

    def arm(self, events):
        self.watch.modify(self.wire.descriptor, events)

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
            answer = run(self.handler, self.wire, message[1], message[2])
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
            self.wire.send(*run(self.handler, self.wire, message[1], message[2]))
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
                    if not self.wire.fill(self.wire.read_now):
                        # fnd has closed the connection: no caller waits for the running calls.
                        _exit(0)
                except BlockingIOError:
                    pass
                self.dispatch()
            if self.busy:
                self.arm(select.EPOLLIN | select.EPOLLONESHOT)


def serve(wire, handler):
    server = Server(wire, handler)
    server.serve()
    # The watcher has the server until the process ends. The function's globals must be finalized before: for example, a file
    # writes what is in its buffer.
    server.handler = None
