"""Serves one Python function. Only modules that a call needs are imported here, since imports make cold starts slower."""

import gc
import os
import sys

BYTE_CODE = os.environ.pop("FND_BYTE_CODE", None)


def main(entry, concurrency):
    """Serves the function of a file. `concurrency` is what the manifest allows in one worker; 0: unknown."""
    import_library(concurrency)
    import_own("call", "load", *["single"] if concurrency == 1 else ["threads", "values"])
    from .answer import failure
    from .wire import ERROR, Wire

    wire = Wire(3)
    try:
        from .load import load

        begin(entry)
        handler = load(entry)
    except BaseException as error:  # also SystemExit: a worker that ends before it is ready says why
        sys.stdout.flush()
        wire.send(0, ERROR, failure(error, entry, loading=True))
        sys.stderr.flush()
        # Threads that the file started must not keep a worker alive that cannot serve.
        os._exit(1)
    if handler.is_async:
        import asyncio

        import_own("asynchronous")
        from .asynchronous import serve
    elif concurrency == 1:
        from .single import serve
    else:
        from .threads import serve
    serve(wire, handler)


def import_library(concurrency):
    """Imports what the shim needs of the library, whose byte code is not kept in `FND_BYTE_CODE`."""
    if concurrency != 1:
        import select, threading
    try:
        import _json, _struct
    except ImportError:
        # Another implementation than CPython.
        import json, struct


def import_own(*names):
    """Imports modules of the shim, and lets Python keep their byte code where `FND_BYTE_CODE` says: compiled each time they
    are a third of a start."""
    before = sys.pycache_prefix, sys.dont_write_bytecode
    sys.pycache_prefix, sys.dont_write_bytecode = BYTE_CODE, BYTE_CODE is None
    try:
        for name in names:
            __import__("fnd_worker." + name)
    except Exception:
        # The compiled files are damaged: without them the imports are only slower. Any other error comes again later.
        pass
    sys.pycache_prefix, sys.dont_write_bytecode = before


def begin(entry):
    """The last step before code of the function runs."""
    # The function's own modules come first, then `fnd` and `python_sdk_rafay_workflow`, then the machine's.
    sys.path.insert(0, entry.rpartition("/")[0])
    # The collector never looks at what is loaded now, also not at the end of the process: that is half of the time of an
    # end. Finalizers of the function run as always, since no object of it is there yet.
    gc.freeze()
    gc.enable()
