"""Several values by name, as bottle has them: parameters, fields of forms, files, cookies, headers."""


class Values(dict):
    """Values by name, the last of each; `getall` has all of them. A missing one is "" as an attribute."""

    def __init__(self, pairs=()):
        pairs = list(pairs)
        super().__init__(pairs)
        self._pairs, self._all = pairs, None

    def getall(self, name):
        # Not by a search: with 10,000 names, a caller could make a handler search 10,000 times.
        if self._all is None:
            self._all = {}
            for known, value in self._pairs:
                self._all.setdefault(known, []).append(value)
        return list(self._all.get(name, ()))

    getlist = getall

    def get(self, key, default=None, index=-1, type=None):
        """Returns one of the values, the last one unless `index` names another, as `type` converts it; the default if
        there is none, or if `type` refuses it."""
        try:
            value = self[key] if index == -1 else self.getall(key)[index]
            return type(value) if type else value
        except Exception:
            return default

    getone = getunicode = get

    def decode(self, encoding=None):
        return self

    def allitems(self):
        return list(self._pairs)

    iterallitems = allitems

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name, "")


class Query(Values):
    """Parameters behind the `?`; as text: all of it."""

    def __init__(self, text):
        from urllib.parse import parse_qsl

        super().__init__(parse_qsl(text, keep_blank_values=True))
        self.text = text

    def __str__(self):
        return self.text


class Headers(dict):
    """Headers by name, with all values of a name in one; `getall` has each. Upper and lower case are equal."""

    # The headers as they were sent. (Not the request: a cycle would keep the files of a form until a collection.)
    __slots__ = ("_sent",)

    @property
    def __dict__(self):
        """What `vars` shows: bottle's headers are a view of the variables of WSGI."""
        from .wsgi import variables

        return {"environ": variables(self)}

    def __getitem__(self, name):
        return super().__getitem__(name.lower())

    def __setitem__(self, name, value):
        super().__setitem__(name.lower(), value)

    def __delitem__(self, name):
        super().__delitem__(name.lower())

    def __contains__(self, name):
        return super().__contains__(name.lower())

    def get(self, key, default=None, index=-1, type=None):
        try:
            value = self[key] if index == -1 else self.getall(key)[index]
            return type(value) if type else value
        except Exception:
            return default

    getone = getunicode = get

    def raw(self, key, default=None):
        return self.get(key, default)

    def pop(self, name, *default):
        return super().pop(name.lower(), *default)

    def getall(self, name):
        name = name.lower()
        return [value for known, value in self._sent if known == name] or [self[name] for _ in range(name in self)]

    getlist = get_all = getall

    def allitems(self):
        return [(name, value) for name in self for value in self.getall(name)]


class Body(bytes):
    """The body of a request: bytes that can be read like a file as well. As in a file, its items are lines."""

    at = 0
    closed = False

    def read(self, size=-1):
        end = len(self) if size is None or size < 0 else self.at + size
        piece, self.at = self[self.at : end], max(self.at, min(end, len(self)))
        return bytes(piece)

    read1 = read

    def readinto(self, buffer):
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def readline(self, size=-1):
        end = self.find(b"\n", self.at) + 1 or len(self)
        return self.read(end - self.at if size is None or size < 0 else min(size, end - self.at))

    def readlines(self, hint=-1):
        return list(self)

    def __iter__(self):
        return iter(self.readline, b"")

    def seek(self, offset, whence=0):
        at = offset + (0, self.at, len(self))[whence]
        if at < 0:
            raise ValueError("a negative position in the body: %d" % at)
        self.at = at
        return at

    def tell(self):
        return self.at

    def getvalue(self):
        return bytes(self)

    def readable(self):
        return True

    seekable = readable

    def writable(self):
        return False

    def flush(self):
        pass

    close = flush

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass
