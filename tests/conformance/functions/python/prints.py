import sys


def handler(event, context):
    print("out " + event["data"], end="")
    print("err " + event["data"], end="", file=sys.stderr)
    return event["data"]
