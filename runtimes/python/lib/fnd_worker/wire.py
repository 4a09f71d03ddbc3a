"""Reads and writes frames on descriptor 3."""

import os
import struct
from _socket import socket
from threading import Lock

READY, INVOKE, BODY, RESULT, ERROR, LOG, STOP = range(1, 8)
FRAME_MAX = 256 << 10
MORE, OPTIONAL = 1, 2
HEADER = struct.Struct("<IBBHQ")


class Wire:
    """The socket: one reader at a time, any number of senders."""

    def __init__(self, descriptor):
        os.set_inheritable(descriptor, False)
        self.socket = socket(fileno=descriptor)
        self.socket.setblocking(True)
        self.buffer = bytearray(HEADER.size + FRAME_MAX)
        self.view = memoryview(self.buffer)
        self.start = self.end = 0
        # Incomplete messages by call: the type and the pieces so far.
        self.begun = {}
        self.sending = Lock()

    def fill(self, flags=0):
        """Reads the available bytes, and waits for some unless `flags` forbid it. Returns False at the end of file."""
        if self.start == self.end:
            self.start = self.end = 0
        elif self.end == len(self.buffer):
            rest = self.buffer[self.start : self.end]
            self.start, self.end = 0, len(rest)
            self.buffer[: self.end] = rest
        try:
            got = self.socket.recv_into(self.view[self.end :], 0, flags)
        except ConnectionError:
            return False
        self.end += got
        return got > 0

    def next(self):
        """Returns the next complete message that was read, `(type, call, content)`, or None."""
        while self.end - self.start >= HEADER.size:
            length, kind, flags, reserved, call = HEADER.unpack_from(self.buffer, self.start)
            if length > FRAME_MAX or reserved:
                raise ValueError("fnd sent an invalid frame")
            begin = self.start + HEADER.size
            if begin + length > self.end:
                return None
            self.start = begin + length
            if kind not in (INVOKE, BODY, STOP):
                if flags & OPTIONAL:
                    continue
                raise ValueError("fnd sent a frame of type %d" % kind)
            content = self.view[begin : self.start].tobytes()
            if kind == BODY:
                kind, pieces = self.begun.pop(call)
                pieces.append(content)
                if flags & MORE:
                    self.begun[call] = kind, pieces
                    continue
                content = b"".join(pieces)
            elif flags & MORE:
                self.begun[call] = kind, [content]
                continue
            return kind, call, content
        return None

    def send(self, call, kind, content):
        if len(content) <= FRAME_MAX:
            frames = HEADER.pack(len(content), kind, 0, 0, call) + content
        else:
            frames = bytearray()
            for begin in range(0, len(content), FRAME_MAX):
                piece = content[begin : begin + FRAME_MAX]
                more = begin + FRAME_MAX < len(content)
                frames += HEADER.pack(len(piece), BODY if begin else kind, MORE if more else 0, 0, call) + piece
        with self.sending:
            self.socket.sendall(frames)
