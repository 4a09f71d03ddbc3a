"""Loads a function's file and finds its handler. A form that fnd does not have is refused here, not at the first call."""

import os
import sys

# `types` has it, too, and takes time to import.
ModuleType = type(sys)
# Flags of a code object: `*args`, `async def`, `async def` with `yield`.
VARIADIC, COROUTINE, ASYNC_GENERATOR = 0x04, 0x80, 0x200
# The package of the file, for `from . import beside`.
PACKAGE = "fnd_function"
FORMS = "`handler(event, context)`, `main(event, context)` or `handle(logger, request)`"
# The two first parameters that tell of another system, and what to do.
FOREIGN = {
    ("environ", "start_response"): "a WSGI application: serve it with a WSGI server and `[http_server]`",
    ("scope", "receive"): "an ASGI application: serve it with an ASGI server and `[http_server]`",
}


class Handler:
    """The function that is called, and how it is called."""

    def __init__(self, function, name):
        self.function = function
        self.name = getattr(function, "__name__", name)
        code, bound = code_of(function)
        self.is_async = bool(code_of(function, wrapped=False)[0].co_flags & COROUTINE) if code else False
        self.parameters = 2
        refuse(self.name, function)
        first = code.co_varnames[: code.co_argcount][bound : bound + 1] if code else ()
        self.is_rafay = first == ("logger",) or (name == "handle" and first != ("event",))
        if code and not code.co_flags & VARIADIC:
            self.parameters = min(code.co_argcount - bound, 2)
            if self.is_rafay and self.parameters < 2:
                raise LookupError("`%s` has too few parameters: it is `handle(logger, request)`" % self.name)
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


def refuse(name, function):
    """Raises an error for a function that cannot be called as a handler, or whose answer cannot be sent."""
    if isinstance(function, type):
        raise LookupError("`%s` is a class, which is no handler: a handler is %s" % (name, FORMS))
    # What is really called: a decorator may add parameters of its own.
    code, bound = code_of(function, wrapped=False)
    if not code:
        return
    parameters = code.co_varnames[bound : code.co_argcount]
    foreign = FOREIGN.get(parameters[:2])
    if foreign:
        raise LookupError("`%s(%s)` is %s" % (name, ", ".join(parameters), foreign))
    called = function if hasattr(function, "__code__") or hasattr(function, "__func__") else function.__call__
    needed = len(parameters) - len(called.__defaults__ or ())
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    keywords = [keyword for keyword in keywords if keyword not in (called.__kwdefaults__ or ())]
    if needed > 2 or keywords:
        words = ", ".join([*parameters[:needed], *keywords])
        raise LookupError("`%s` needs the parameters %s, but fnd gives it two: a handler is %s" % (name, words, FORMS))
    if code.co_flags & ASYNC_GENERATOR:
        raise LookupError("`%s` is `async` and has `yield`, which is not supported: return the whole answer" % name)


def load(entry):
    module = run(entry)
    if "bottle" in sys.modules:
        unbind(sys.modules["bottle"])
    wanted = os.environ.get("FUNC_HANDLER")
    if wanted:
        function = getattr(module, wanted, None)
        if not callable(function):
            raise LookupError("the file has no function `%s`, which `handler` of the manifest names" % wanted)
        return served(Handler(function, wanted))
    registered = sys.modules.get("python_sdk_rafay_workflow.sdk")
    if registered and registered.served:
        return Handler(registered.served[-1], "handle")
    for name in ("handler", "main", "handle"):
        function = getattr(module, name, None)
        if isinstance(function, ModuleType):
            # `from function import handler`, as in the `main.py` of Rafay.
            name, function = "handle", getattr(function, "handle", None)
        if callable(function):
            handler = Handler(function, name)
            if name == "handler" or handler.parameters == 2 or (name == "main" and handler.parameters == 0):
                return served(handler)
    raise LookupError("the file has no %s%s" % (FORMS, misspelt(module)))


def misspelt(module):
    """Returns a question about the function that may be meant as the handler."""
    from difflib import get_close_matches

    names = ("handler", "handle", "main")
    own = [name for name, value in vars(module).items() if type(value) is type(misspelt) and name not in names]
    for wanted in names:
        for name in get_close_matches(wanted, own, 1, 0.8):
            return "; did you mean `%s` instead of `%s`?" % (wanted, name)
    return ""


def unbind(bottle):
    """Makes bottle's global `request` say that there is none, as in Kubeless and Kyma. Otherwise it looks like an empty one."""
    try:
        object.__delattr__(bottle.request, "environ")
    except Exception:
        # The function has another bottle, or has used it.
        pass


def served(handler):
    """Prepares Kyma's newer form, `main()`, which finds its request in flask."""
    if handler.parameters == 0 and "flask" in sys.modules:
        if handler.is_async:
            raise LookupError("`%s()` is `async`, which flask's form does not allow here" % handler.name)
        from .flask import prepare

        prepare(handler)
    return handler


class KymaSdk:
    """Finds `import sdk` of Kyma's newer form, unless there is another module of this name."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "sdk":
            return None
        from importlib.util import spec_from_file_location

        return spec_from_file_location(name, os.path.join(os.path.dirname(__file__), "kyma.py"))


def run(entry):
    """Runs the file as the module that fnd names. The file is read, not imported, since its name may be invalid in Python."""
    name = os.environ.get("MOD_NAME") or os.path.basename(entry).partition(".")[0]
    if name in sys.modules:
        # A function called `json` must not replace the library of that name.
        name = "function_" + name
    with open(entry, "rb") as file:
        source = file.read()
    sys.meta_path.append(KymaSdk)
    package = sys.modules[PACKAGE] = ModuleType(PACKAGE)
    package.__path__ = [os.path.dirname(entry)]
    module = sys.modules[name] = ModuleType(name)
    module.__file__, module.__package__ = entry, PACKAGE
    exec(compile(source, entry, "exec", dont_inherit=True), module.__dict__)
    return module
