"""Kyma's newer form, `main()`: flask's `request` is that of the call, and what `main` returns is an answer of flask.

fnd imports this only if the function has imported flask.
"""

from flask import Flask
from werkzeug.exceptions import HTTPException

from .request import Request


def prepare(handler):
    app, function = Flask(handler.name), handler.function

    def call(request):
        environ = dict(request.environ)
        with app.request_context(environ):
            try:
                return app.make_response(function())
            except HTTPException as error:
                return error.get_response(environ)

    handler.function, handler.arguments = call, arguments


def arguments(handler, wire, call, head, payload, previous):
    request = Request(head, payload)
    # What the handler sends can take the trace from here.
    request.known.setdefault("traceparent", head["traceparent"])
    return (request,)
