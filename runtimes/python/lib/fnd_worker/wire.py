"""Reads and writes frames on descriptor 3."""

import os
from _thread import allocate_lock

try:
    from _struct import Struct
except ImportError:
    from struct import Struct

READY, INVOKE, BODY, RESULT, ERROR, LOG, STOP, CANCEL = range(1, 9)
FRAME_MAX = 256 << 10
MORE, OPTIONAL = 1, 2
HEADER = Struct("<IBBHQ")
# Of `socket`, whose import takes time.
MSG_DONTWAIT = 0x40
# Larger frames are read to where they stay; smaller ones are copied out of the buffer.
BUFFER = 16 << 10


class Wire:
    """The socket: one reader at a time, any number of senders."""

    def __init__(self, descriptor):
        os.set_inheritable(descriptor, False)
        os.set_blocking(descriptor, True)
        self.descriptor, self.socket = descriptor, None
        # Whether Cancel is a message here; else it is skipped.
        self.cancels = False
        self.buffer = bytearray(BUFFER)
        self.view = memoryview(self.buffer)
        self.start = self.end = 0
        # The frame that is being read, if it does not fit into the buffer: its header, and where the rest of it goes.
        self.frame = self.missing = None
        # Incomplete messages by call.
        self.begun = {}
        self.sending = allocate_lock()

    def read(self, buffers):
        return os.readv(self.descriptor, buffers)

    def read_now(self, buffers):
        """As `read`, and raises `BlockingIOError` instead of waiting."""
        if self.socket is None:
            from _socket import socket

            self.socket = socket(fileno=self.descriptor)
        return self.socket.recvmsg_into(buffers, 0, MSG_DONTWAIT)[0]

    def fill(self, read=None):
        """Reads the available bytes, and waits for some unless `read` does not. Returns False at the end of file."""
        if self.missing:
            # With it the next header, so that it needs no call of its own.
            buffers = self.missing, self.view[: HEADER.size]
        elif self.start == self.end:
            self.start = self.end = 0
            buffers = (self.view,)
        else:
            if self.end == len(self.buffer):
                rest = self.buffer[self.start : self.end]
                self.start, self.end = 0, len(rest)
                self.buffer[: self.end] = rest
            buffers = (self.view[self.end :],)
        try:
            got = (read or self.read)(buffers)
        except ConnectionError:
            return False
        if self.missing:
            self.end = max(got - len(self.missing), 0)
            self.missing = self.missing[got:]
        else:
            self.end += got
        return got > 0

    def next(self):
        """Returns the next complete message that was read, `(type, call, content)`, or None."""
        while True:
            if self.frame:
                if self.missing:
                    return None
                (_, kind, flags, _, call), content = self.frame
                self.frame = self.missing = None
            else:
                if self.end - self.start < HEADER.size:
                    return None
                header = length, kind, flags, reserved, call = HEADER.unpack_from(self.buffer, self.start)
                if length > FRAME_MAX or reserved:
                    raise ValueError("fnd sent an invalid frame")
                begin = self.start + HEADER.size
                if length > BUFFER - HEADER.size:
                    self.begin(header, begin)
                    continue
                if begin + length > self.end:
                    return None
                self.start = begin + length
                content = self.view[begin : self.start].tobytes()
            if kind == INVOKE and not flags & MORE or kind == STOP or kind == CANCEL and self.cancels:
                return kind, call, content
            message = self.partial(kind, flags, call, content)
            if message:
                return message

    def begin(self, header, at):
        """Begins a frame that does not fit into the buffer with what the buffer has of it."""
        length, kind, _, _, call = header
        content = None
        place = self.begun[call].place(length) if kind == BODY else None
        if place is None:
            content = bytearray(length)
            place = memoryview(content)
        got = min(self.end - at, length)
        place[:got] = self.view[at : at + got]
        self.start = at + got
        self.frame, self.missing = (header, content), place[got:]
        if got < length:
            self.start = self.end = 0

    def partial(self, kind, flags, call, content):
        """Takes a frame of a message that has several. Returns the message if it is complete."""
        if kind == INVOKE:
            from .large import Large

            self.begun[call] = Large(content)
        elif kind == BODY:
            if content is not None:
                self.begun[call].add(content)
            if not flags & MORE:
                return INVOKE, call, self.begun.pop(call).parts()
        elif not flags & OPTIONAL:
            raise ValueError("fnd sent a frame of type %d" % kind)
        return None

    def send(self, call, kind, content, body=b""):
        """Sends a message: `content` and, behind it, `body`."""
        size = len(content) + len(body)
        if size <= BUFFER:
            frames = [HEADER.pack(size, kind, 0, 0, call) + content + body]
        else:
            frames, view, at = [], memoryview(body), 0
            while content or at < len(view):
                piece = view[at : at + FRAME_MAX - len(content)]
                at += len(piece)
                size = len(content) + len(piece)
                frames += [HEADER.pack(size, kind, MORE if at < len(view) else 0, 0, call) + content, piece]
                kind, content = BODY, b""
        with self.sending:
            while frames:
                # `writev` takes no more pieces at once.
                done = os.writev(self.descriptor, frames[:1024])
                while frames and done >= len(frames[0]):
                    done -= len(frames.pop(0))
                if done:
                    frames[0] = memoryview(frames[0])[done:]
