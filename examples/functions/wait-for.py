"""Waits until a long-running thing is done, without a process that waits: each look is an attempt of its own.

    fndctl invoke wait-for --async -d '{"url": "http://build.example.com/builds/17", "until": "done"}'

Exit code 99 means "execute again": fnd runs it again after `repeat`, until `until`, and gives it what it wrote to
$FND_RESULT last time, in the file $FND_PREVIOUS.
"""
# /// fnd
# description = "Polls a URL until it says what it should"
# on_load = false
# [limits]
# timeout = "30s"
# [poll]
# repeat = "15s"
# until = "1h"
# ///
import json
import os
import sys
import urllib.error
import urllib.request

EXECUTE_AGAIN = 99


def previous() -> dict:
    path = os.environ.get("FND_PREVIOUS")
    if not path:
        return {"looks": 0}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main() -> int:
    payload = json.load(sys.stdin)
    state = previous()
    state["looks"] += 1
    try:
        with urllib.request.urlopen(payload["url"], timeout=10) as answer:
            state["answer"] = answer.read(65536).decode("utf-8", "replace")
        done = payload.get("until", "done") in state["answer"]
    except urllib.error.URLError as error:
        state["answer"], done = str(error), False
    with open(os.environ["FND_RESULT"], "w", encoding="utf-8") as result:
        json.dump(state, result)
    return 0 if done else EXECUTE_AGAIN


if __name__ == "__main__":
    sys.exit(main())
