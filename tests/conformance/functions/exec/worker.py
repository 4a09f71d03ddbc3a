"""The worker protocol for the programs beside it; as short as it can be: one frame a message, large ones cut."""

import json
import os
import struct
import sys
import time

HEADER = struct.Struct("<IBBHQ")


def read(size):
    data = b""
    while len(data) < size:
        piece = os.read(3, size - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data


def send(kind, call, content):
    while True:
        piece, content = content[: 1 << 18], content[1 << 18 :]
        frame = HEADER.pack(len(piece), kind, 1 if content else 0, 0, call) + piece
        while frame:
            frame = frame[os.write(3, frame) :]
        if not content:
            return
        kind = 3


def serve(handler):
    """`handler(data, previous, head, log)` returns bytes, None, or a dictionary: an Error."""
    send(1, 0, b'{"protocol":1,"concurrency":1}')
    content = b""
    while True:
        length, kind, flags, _, call = HEADER.unpack(read(16))
        piece = read(length)
        if kind == 7:
            sys.exit(0)
        if kind not in (2, 3):
            continue
        content += piece
        if flags & 1:
            continue
        begin = 4 + int.from_bytes(content[:4], "little")
        head = json.loads(content[4:begin])
        end = begin + head.get("data", 0)
        data = content[begin:end] if "data" in head else None
        previous = json.loads(content[end:]) if "previous" in head else None
        content = b""

        def log(level, message, **fields):
            record = {"time_ms": int(time.time() * 1000), "level": level, "message": message, "fields": fields}
            send(6, call, json.dumps(record).encode())

        answer = handler(data, previous, head, log)
        sys.stdout.flush()
        sys.stderr.flush()
        if isinstance(answer, dict):
            send(5, call, json.dumps(answer).encode())
            continue
        kind = head.get("content_type")
        answer_head = {} if answer is None else {"data": len(answer), **({"content_type": kind} if kind else {})}
        answer_head = json.dumps(answer_head).encode()
        send(4, call, len(answer_head).to_bytes(4, "little") + answer_head + (answer or b""))
