import json
import sys

print(json.dumps({"got": json.load(sys.stdin)["name"]}, ensure_ascii=False))
