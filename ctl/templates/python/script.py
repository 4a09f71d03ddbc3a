"""A script: each run is a process of its own.

Standard input is the payload, and so is the variable DATA. Standard output is the result; standard error is the log.
Exit codes: 0 success, 75 try again later, 65 never try again, others an error.
"""

import json
import os
import sys

payload = json.load(sys.stdin)
print("run", os.environ["FND_INVOCATION"], "attempt", os.environ["FND_ATTEMPT"], file=sys.stderr)
print(json.dumps({"words": len(payload["text"].split())}))
