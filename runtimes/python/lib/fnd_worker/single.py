"""Serves a handler that is no coroutine, where `[pool] concurrency` is 1: fnd sends a call when the last one is answered.

Nothing watches the socket while a call runs. If fnd is gone meanwhile, the spawner kills the worker.
"""

from .run import run
from .wire import READY, STOP


def serve(wire, handler):
    wire.send(0, READY, b'{"protocol":1,"concurrency":1}')
    while True:
        message = wire.next()
        while message is None and wire.fill():
            message = wire.next()
        if message is None or message[0] == STOP:
            return
        wire.send(*run(handler, wire, message[1], message[2]))
