"""Runs one call of a handler, and makes the answer of it."""

from fnd import BadRequest, Response

from .answer import failure, flush, is_answer, result
from .decode import PARSE
from .wire import ERROR, RESULT


def head_of(content, end):
    return PARSE(content[4:end].decode())


def parts(content):
    """Splits an Invoke into head, payload and previous. One of several frames is split already."""
    if type(content) is tuple:
        return content
    begin = 4 + int.from_bytes(content[:4], "little")
    head = head_of(content, begin)
    size, rest = head.get("data"), head.get("previous")
    end = begin + (size or 0)
    if type(content) is not bytes:
        # A frame that did not fit into the buffer. The handler gets `bytes`, and they are copied only once.
        content = memoryview(content)
        payload = None if size is None else bytes(content[begin:end])
        return head, payload, None if rest is None else bytes(content[end : end + rest])
    return head, None if size is None else content[begin:end], None if rest is None else content[end : end + rest]


def run(handler, wire, call, content):
    """Returns the answer of a call, as `wire.send` takes it."""
    try:
        value = handler.function(*handler.arguments(handler, wire, call, *parts(content)))
        if hasattr(value, "__await__"):
            value = wait_for(value)
        answer = (call, RESULT, *result(value))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        answer = failed(call, error)
    flush()
    return answer


def failed(call, error):
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return (call, RESULT, *result(None))
    if isinstance(error, BadRequest):
        return (call, RESULT, *result(Response(str(error) + "\n", 400)))
    if is_answer(error):
        try:
            return (call, RESULT, *result(error))
        except Exception as why:
            error = why
    return call, ERROR, failure(error, None)


def wait_for(value):
    """Runs an awaitable that a function which is no coroutine has returned."""
    import asyncio

    async def wait():
        return await value

    return asyncio.run(wait())
