"""Serves one Python function. Nothing is imported here that a call does not need: the time to start is a cold start's."""

import os
import sys


def main(entry):
    from .answer import failure
    from .wire import ERROR, Wire

    wire = Wire(3)
    try:
        from .load import load

        handler = load(entry)
    except BaseException as error:  # also SystemExit: a worker that ends before it is ready says why
        sys.stdout.flush()
        wire.send(0, ERROR, failure(error, entry, loading=True))
        sys.stderr.flush()
        # Threads the file began must not keep a worker alive that serves nothing.
        os._exit(1)
    if handler.is_async:
        from .asynchronous import serve
    else:
        from .threads import serve
    serve(wire, handler)
