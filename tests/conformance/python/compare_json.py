"""Compares the shim's JSON with the library's: the same values, texts and errors. Argument: the directory of `fnd_worker`."""

import random
import sys

sys.path.insert(0, sys.argv[1])
from fnd_worker import jsontext

assert "re" not in sys.modules and "json" not in sys.modules, "the C parts are not used"
random.seed(7)

NUMBERS = ["0", "-0", "-0.0", "1e400", "-1e400", "1E5", "0.1", "1.5e-7", "123456789012345678901234567890", "9" * 400]
TEXTS = ['""', '"\\u00e9\\ud83d\\ude00"', '"\\ud800"', '"a\\\\\\"\\/\\b\\f\\n\\r\\t"', '"\u2028 \U0001f600"']
WORDS = ["null", "true", "false", "NaN", "Infinity", "-Infinity"]
BROKEN = [
    *("", " ", "\ufeff1", "nul", "01", "1.", "-", "+1", ".5", "1e", "'a'", '"', '"\\', '"\\u12', '"\\x"', '"\n"', '"\x00"'),
    *("[", "[1", "[1,", "[1,]", "[,]", "]", "{", "{1", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', "{,}", "}"),
    *("1 2", "[] []", "null\x0b", "\xa01", "tru e", '{"a" 1}', '{"a":1 "b"}', "//", "NaN1", "[1 2]", '[[[{"a":[}]]]'),
]


def text(depth=0):
    kind = random.randrange(9 if depth < 5 else 6)
    space = random.choice(["", "", " ", "\n\t", "\r "])
    if kind < 6:
        return space + random.choice(NUMBERS + TEXTS + WORDS) + space
    if kind < 8:
        return space + "[" + ",".join(text(depth + 1) for _ in range(random.randrange(4))) + "]" + space
    names = [space + random.choice(TEXTS + ['"a"', '"a"', '"b"']) + space for _ in range(random.randrange(4))]
    return "{" + ",".join(name + ":" + text(depth + 1) for name in names) + "}" + space


def damaged(good):
    at = random.randrange(len(good) + 1)
    return random.choice([good[:at], good[at:], good[:at] + random.choice('"\\[]{},:0 x\n\ufeff') + good[at:]])


def outcome(function, value):
    try:
        return repr(function(value))
    except Exception as error:
        return "%s: %s %s" % (type(error).__name__, error, getattr(error, "pos", ""))


class Plain:
    pass


class Number(int):
    def __repr__(self):
        return "a number"


class Text(str):
    pass


circle = []
circle.append({"a": circle})
deep = []
for _ in range(100000):
    deep = [deep]
VALUES = [
    *(Plain(), {1, 2}, b"x", 1j, object, float("nan"), [float("inf")], {"a": {"b": Plain()}}, circle, deep),
    *({1: 1, None: 2, True: 3, 1.5: 4}, {(1, 2): 3}, {Plain(): 1}, (1, [2, (3,)]), Number(7), Text("é\ud800"), {Text("k"): Text("v")}),
    *("\x00\x1f\x7f\u2028\U0001f600\"\\/", 10**500, -0.0, 1e22, 1e-7, 5e-324, True, None, [], {}, [[]], {"": ""}, "", 0),
]

good = [text() for _ in range(1500)]
broken = BROKEN + [damaged(one) for one in good]
ours, read = [], []
for one in good + broken + ["[" * 100000, '{"a":' * 100000]:
    ours.append((one, outcome(jsontext.decode, one)))
    # The next broken text comes as the first one: before anybody has imported the library.
    for name in [name for name in sys.modules if name.partition(".")[0] == "json"]:
        del sys.modules[name]
for one in good:
    read.append(jsontext.decode(one))
written = [outcome(jsontext.encode, value) for value in VALUES + read]

import json

library = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=True, separators=(",", ":")).encode
for one, got in ours:
    expected = outcome(json.JSONDecoder().decode, one)
    assert got == expected, (one[:200], got, expected)
for value, got in zip(VALUES + read, written):
    expected = outcome(library, value)
    assert got == expected, (type(value), got[:200], expected[:200])
assert any(got.startswith("JSONDecodeError") for _, got in ours)
# A failed value leaves nothing behind.
assert outcome(jsontext.encode, circle) == outcome(jsontext.encode, circle)
circle[:] = [1]
assert jsontext.encode([circle, circle]) == "[[1],[1]]"
