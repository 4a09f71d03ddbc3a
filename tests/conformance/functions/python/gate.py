import threading

gate = threading.Event()


def handler(event, context):
    if event["data"] == "open":
        gate.set()
    else:
        gate.wait()
    return event["data"]
