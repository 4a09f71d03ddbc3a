"""JSON by the C parts of the library `json`, without the library: importing it also imports `re`, which is a third of the
start of a worker. Values and errors are those of `json`."""

SPACE = " \t\n\r"


def of_library():
    """Returns both functions as the library has them."""
    from json import JSONDecoder, JSONEncoder

    encoder = JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=True, separators=(",", ":"))
    return encoder.encode, JSONDecoder().decode


def of_parts():
    """Returns both functions from the C parts. Raises an error if this Python has no such parts, or others."""
    import sys

    from _json import encode_basestring, make_encoder, make_scanner

    class Context:
        """The attributes that a scanner asks for."""

        strict, object_hook, object_pairs_hook = True, None, None
        parse_float, parse_int = float, int
        parse_constant = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}.__getitem__

    def unknown(value):
        raise TypeError("Object of type %s is not JSON serializable" % value.__class__.__name__)

    def encode(value):
        if isinstance(value, str):
            return encode_basestring(value)
        # A new encoder each time, as in the library: the dictionary has the objects that are being encoded.
        return "".join(make_encoder({}, unknown, encode_basestring, None, ":", ",", False, False, False)(value, 0))

    scan = make_scanner(Context)

    def decode(text):
        stripped = text.strip(SPACE)
        try:
            value, end = scan(stripped, 0)
        except (StopIteration, SystemError, ValueError):
            # Until Python 3.12 the scanner finds no error to raise as long as nobody has imported `json`: `SystemError`.
            end = -1
        return value if end == len(stripped) else of_library()[1](text)

    if hasattr(sys, "gettotalrefcount"):
        # A debug build aborts instead of raising `SystemError`.
        raise ImportError("a debug build")
    if encode(decode(' {"a":[1.5,null,"\\n"]} ')) != '{"a":[1.5,null,"\\n"]}':
        raise ImportError("unknown parts")
    return encode, decode


try:
    encode, decode = of_parts()
except Exception:
    encode, decode = of_library()
