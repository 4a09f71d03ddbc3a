"""Loads a function's file and finds its handler."""

import os
import sys
from types import ModuleType

# Flags of a code object: `*args`, and `async def`.
VARIADIC, COROUTINE = 0x04, 0x80


class Handler:
    """The function that is called, and how it is called."""

    def __init__(self, function, name):
        self.function = function
        self.name = getattr(function, "__name__", name)
        code, bound = code_of(function)
        self.is_async = bool(code_of(function, wrapped=False)[0].co_flags & COROUTINE) if code else False
        self.parameters = 2
        self.is_rafay = name == "handle"
        if code and not code.co_flags & VARIADIC:
            self.parameters = min(code.co_argcount - bound, 2)
            self.is_rafay = self.is_rafay or code.co_varnames[bound : bound + 1] == ("logger",)
        from .call import event_and_context, logger_and_request

        self.arguments = logger_and_request if self.is_rafay else event_and_context


def code_of(function, wrapped=True):
    """Returns the code of a function, method or callable object, and how many of its parameters are bound."""
    while wrapped and hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    if not hasattr(function, "__code__") and not hasattr(function, "__func__"):
        function = getattr(function, "__call__", None)
    bound = 1 if getattr(function, "__self__", None) is not None else 0
    return getattr(function, "__code__", None), bound


def load(entry):
    module = run(entry)
    wanted = os.environ.get("FUNC_HANDLER")
    if wanted:
        function = getattr(module, wanted, None)
        if not callable(function):
            raise LookupError("the file has no function `%s`, which `handler` of the manifest names" % wanted)
        return served(Handler(function, wanted), module)
    for name in ("handler", "main", "handle"):
        function = getattr(module, name, None)
        if callable(function):
            handler = Handler(function, name)
            if name == "handler" or handler.parameters == 2:
                return served(handler, module)
    raise LookupError("the file has no `handler(event, context)`, `main(event, context)` or `handle(logger, request)`")


def served(handler, module):
    """Refuses Kyma's `main()`, which gets its request from flask and would find none here."""
    flask = sys.modules.get("flask")
    if handler.parameters == 0 and flask and getattr(module, "request", None) is flask.request:
        raise LookupError(
            "`%s()` reads flask's `request`, which is not supported: use `%s(event, context)`, "
            "or serve HTTP yourself with `[http_server]`" % (handler.name, handler.name)
        )
    return handler


def run(entry):
    """Runs the file as the module that fnd names. The file is read, not imported, since its name may be invalid in Python."""
    name = os.environ.get("MOD_NAME") or os.path.basename(entry).partition(".")[0]
    if name in sys.modules:
        # A function called `json` must not replace the library of that name.
        name = "function_" + name
    with open(entry, "rb") as file:
        source = file.read()
    module = sys.modules[name] = ModuleType(name)
    module.__file__ = entry
    exec(compile(source, entry, "exec", dont_inherit=True), module.__dict__)
    return module
