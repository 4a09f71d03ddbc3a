"""Serves one Python function. Only modules that a call needs are imported here, since imports make cold starts slower."""

import os
import sys


def import_own():
    """Imports the shim's modules, and lets Python keep their byte code where `FND_BYTE_CODE` says: compiled each time they
    are a third of a start. The standard modules that they import come first: the byte code of those is kept already."""
    import json, select, struct, threading, time

    before = sys.pycache_prefix, sys.dont_write_bytecode
    sys.pycache_prefix = os.environ.pop("FND_BYTE_CODE", None)
    sys.dont_write_bytecode = sys.pycache_prefix is None
    try:
        from . import call, load, threads, values
    except Exception:
        # The compiled files are damaged: without them the imports are only slower. Any other error comes again below.
        pass
    sys.pycache_prefix, sys.dont_write_bytecode = before


def main(entry):
    import_own()
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
        # Threads that the file started must not keep a worker alive that cannot serve.
        os._exit(1)
    if handler.is_async:
        from .asynchronous import serve
    else:
        from .threads import serve
    serve(wire, handler)
