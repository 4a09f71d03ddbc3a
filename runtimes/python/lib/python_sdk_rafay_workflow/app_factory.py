"""`create_app` of Rafay, which makes a web application elsewhere."""

from .sdk import serve_function


class App:
    """Stands for the web application, so that a file that makes one loads."""

    def __init__(self, handler):
        self.handler = handler

    def __call__(self, *arguments):
        raise RuntimeError("fnd calls the handler itself: no web server is needed, and none can use this object")


def create_app(handler):
    serve_function(handler)
    return App(handler)
