"""The Runtime API of AWS Lambda for the programs beside it; as short as it can be."""

import http.client
import json
import os
import sys
import traceback

BASE = "/2018-06-01/runtime"


class Client:
    def __init__(self):
        self.connection = http.client.HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])

    def ask(self, method, path, body=None, headers={}):
        self.connection.request(method, BASE + path, body, headers)
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != (200 if method == "GET" else 202):
            sys.exit(f"{path} was answered with {answer.status}")
        return answer.headers, body

    def report(self, path, error):
        kind = type(error).__name__
        stack = traceback.format_tb(error.__traceback__)
        body = json.dumps({"errorMessage": str(error), "errorType": kind, "stackTrace": stack})
        self.ask("POST", path, body, {"Lambda-Runtime-Function-Error-Type": kind})


def refuse(error):
    """Says that the function cannot be loaded."""
    Client().report("/init/error", error)
    sys.exit(1)


def serve(handler):
    """`handler(event, headers)` takes and returns bytes."""
    client = Client()
    if os.environ["_HANDLER"].endswith("elsewhere"):
        refuse(LookupError("there is no handler `elsewhere`"))
    while True:
        headers, event = client.ask("GET", "/invocation/next")
        call = "/invocation/" + headers["Lambda-Runtime-Aws-Request-Id"]
        try:
            body = handler(event, headers)
        except Exception as error:
            client.report(call + "/error", error)
            continue
        sys.stdout.flush()
        sys.stderr.flush()
        client.ask("POST", call + "/response", body)
