import json
import os

print("noise")
with open(os.environ["FND_RESULT"], "w") as file:
    json.dump({"list": [1, None, "ü"]}, file)
