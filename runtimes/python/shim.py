"""The shim of runtime python: loads a function's file and serves it over descriptor 3 (runtimes/PROTOCOL.md).

It only puts the search path in order. The rest is a package, `lib/fnd_worker`, so that a function sees no name of it by
accident, and so that its byte code can be kept.
"""

import sys

here, entry = sys.path[0], sys.argv[1]
# The function's own modules come first, then `fnd` and `python_sdk_rafay_workflow`, then the machine's.
sys.path[:1] = [entry.rpartition("/")[0], here + "/lib"]
sys.argv[:] = [entry]

if __name__ == "__main__":
    from fnd_worker import main

    main(entry)
