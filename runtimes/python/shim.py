"""The shim of runtime python: loads a function's file and serves it over descriptor 3 (runtimes/PROTOCOL.md).

The rest is a package, `lib/fnd_worker`, so that a function sees no name of it by accident, and so that its byte code can
be kept: Python always compiles this file, so it is short.
"""

import gc
import os
import sys

# Nothing of the shim is garbage. `fnd_worker` enables it again before it loads the function.
gc.disable()
sys.path[0] += "/lib"
entry, concurrency = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
sys.argv[:] = [entry]

if __name__ == "__main__":
    before = sys.pycache_prefix, sys.dont_write_bytecode
    sys.pycache_prefix = os.environ.get("FND_BYTE_CODE")
    sys.dont_write_bytecode = sys.pycache_prefix is None
    try:
        import fnd_worker
    except Exception:
        pass
    sys.pycache_prefix, sys.dont_write_bytecode = before
    from fnd_worker import main

    main(entry, concurrency)
