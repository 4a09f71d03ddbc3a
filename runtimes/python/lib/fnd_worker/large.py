"""An Invoke that has several frames."""

from _io import BytesIO

from .run import head_of


class Large:
    """The head, and one buffer for everything behind it. The content of frames is read to where it stays."""

    def __init__(self, first):
        # Everything until the head is complete: in practice the first frame.
        self.early, self.view = bytearray(), None
        self.add(first)

    def place(self, length):
        """Returns where the content of the next frame goes; None if nobody knows it yet."""
        if self.view is None:
            return None
        self.at += length
        return self.view[self.at - length : self.at]

    def add(self, content):
        """Takes the content of a frame."""
        if self.view is not None:
            self.place(len(content))[:] = content
            return
        self.early += content
        begin = 4 + int.from_bytes(self.early[:4], "little")
        if begin <= len(self.early):
            self.head = head_of(self.early, begin)
            # No other object refers to these bytes, so the file copies them neither now nor when it returns them.
            self.file = BytesIO(bytes((self.head.get("data") or 0) + (self.head.get("previous") or 0)))
            self.view, self.at = self.file.getbuffer(), 0
            rest = memoryview(self.early)[begin:]
            self.place(len(rest))[:] = rest
            self.early = None

    def parts(self):
        """Returns head, payload and previous."""
        # The file would copy its bytes if there was a view of them.
        self.view = None
        size, rest, content = self.head.get("data"), self.head.get("previous"), self.file.getvalue()
        payload = content if rest is None else content[: size or 0]
        return self.head, None if size is None else payload, None if rest is None else content[size or 0 :]
