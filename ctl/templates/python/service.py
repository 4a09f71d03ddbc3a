"""A service: fnd keeps it running, restarts it when it ends, and stops it with SIGTERM.

Standard output and standard error are the log: `fndctl logs` shows it.
"""

import signal
import sys
import time


def stop(signum, frame):
    print("stopping")
    sys.exit(0)


signal.signal(signal.SIGTERM, stop)
print("started")
while True:
    print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    time.sleep(10)
