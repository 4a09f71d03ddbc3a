import os
import sys

assert os.path.isabs(__file__) or os.path.exists(__file__), __file__
assert "" not in sys.argv
print(os.environ["FND_FUNCTION"])
