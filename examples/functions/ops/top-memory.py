"""The processes that use the most memory. Payload: {"count": 5}"""
# /// fnd
# description = "Largest processes"
# on_load = false
# data = { count = 5 }
# labels = { team = "ops" }
# ///
import json
import pathlib
import re
import sys

found = []
for status in pathlib.Path("/proc").glob("[0-9]*/status"):
    try:
        text = status.read_text(errors="replace")
    except OSError:
        continue  # it ended meanwhile
    size = re.search(r"^VmRSS:\s+(\d+) kB", text, re.M)
    name = re.search(r"^Name:\s+(.*)", text, re.M)
    if size and name:
        found.append({"pid": int(status.parent.name), "name": name[1], "bytes": int(size[1]) * 1024})

found.sort(key=lambda process: process["bytes"], reverse=True)
print(json.dumps(found[: json.load(sys.stdin)["count"]]))
