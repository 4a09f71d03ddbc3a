import sys

sys.exit("said why")
