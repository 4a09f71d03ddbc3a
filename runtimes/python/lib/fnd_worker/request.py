"""The request of an invocation, with the names of bottle's request. Whatever costs time is made when it is asked for."""

from .decode import charset, media_type, parse

EMPTY = {}


class Request:
    """The HTTP request of an invocation. An invocation without one gets a request that would have started it."""

    # What is made once, when it is asked for.
    _headers = _query = _form = _body = _cookies = _environ = None

    def __init__(self, head, payload):
        self._payload = payload
        kind = head.get("content_type")
        self.made = made = head.get("request")
        self.known = known = {}
        if made is None:
            self.method, self.path, self.query_string = "GET" if payload is None else "POST", "/", ""
        else:
            self.method, self.path, self.query_string = made["method"], made["path"], made["query"]
            for name, value in made["headers"]:
                known[name] = known[name] + ", " + value if name in known else value
            kind = kind or known.get("content-type")
        if kind and "content-type" not in known:
            known["content-type"] = kind
        self.media = kind

    def __getstate__(self):
        """What a copy in another process needs. It makes the rest anew."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_environ", "_form")}

    def __repr__(self):
        return "<Request: %s %s>" % (self.method, self.url)

    @property
    def headers(self):
        if self._headers is None:
            from .values import Headers

            self._headers = Headers(self.known)
            self._headers._sent = (self.made or EMPTY).get("headers", ())
        return self._headers

    def get_header(self, name, default=None):
        return self.headers.get(name, default)

    @property
    def content_type(self):
        return (self.media or "").lower()

    @property
    def content_length(self):
        return -1 if self._payload is None else len(self._payload)

    @property
    def query(self):
        """The parameters behind the `?`."""
        if self._query is None:
            from .values import Query

            self._query = Query(self.query_string)
        return self._query

    GET = query

    @property
    def body(self):
        """The body, as a file at its beginning."""
        if self._body is None:
            from .values import Body

            self._body = Body(self._payload or b"")
        self._body.at = 0
        return self._body

    @property
    def json(self):
        return parse(self._payload) if self._payload and media_type(self.media) == "application/json" else None

    @property
    def text(self):
        return (self._payload or b"").decode(charset(self.media or ""), "replace")

    @property
    def forms(self):
        """The fields of a form, urlencoded or multipart; empty for a body of another type."""
        return self._parsed()[0]

    @property
    def files(self):
        """The files of a multipart form."""
        return self._parsed()[1]

    def _parsed(self):
        if self._form is None:
            kind, body = media_type(self.media), self._payload or b""
            if kind == "multipart/form-data":
                from .form import multipart

                self._form = multipart(body, self.media)
            elif kind == "application/x-www-form-urlencoded":
                from .form import urlencoded
                from .values import Values

                self._form = urlencoded(body), Values()
            else:
                from .values import Values

                self._form = Values(), Values()
        return self._form

    @property
    def POST(self):
        """The fields and the files of a form."""
        from .values import Values

        return Values(self.forms.allitems() + self.files.allitems())

    @property
    def params(self):
        """The parameters of the query, of a form, and of the route. The last of these wins: no caller can choose it."""
        from .values import Values

        return Values(self.query.allitems() + self.forms.allitems() + list(self.url_args.items()))

    @property
    def url_args(self):
        """The parameters of the route, by name."""
        return dict((self.made or EMPTY).get("params", ()))

    def _of_route(key):
        return property(lambda self: (self.made or EMPTY).get(key))

    # None without a route.
    route, remote_addr = _of_route("route"), _of_route("remote")
    scheme, host, protocol = _of_route("scheme"), _of_route("host"), _of_route("protocol")
    del _of_route

    @property
    def remote_route(self):
        return [self.remote_addr] if self.remote_addr else []

    @property
    def urlparts(self):
        from urllib.parse import SplitResult

        host = self.host or self.headers.get("host") or "localhost"
        return SplitResult(self.scheme or "http", host, self.path, self.query_string, "")

    @property
    def url(self):
        return self.urlparts.geturl()

    @property
    def fullpath(self):
        return self.path

    script_name, chunked = "/", False

    @property
    def is_xhr(self):
        return self.headers.get("x-requested-with", "").lower() == "xmlhttprequest"

    is_ajax = is_xhr

    @property
    def cookies(self):
        if self._cookies is None:
            from .wsgi import cookies

            self._cookies = cookies(self.headers.get("cookie", ""))
        return self._cookies

    def get_cookie(self, key, default=None, secret=None, **more):
        if secret is not None:
            raise NotImplementedError("a signed cookie: use `bottle.BaseRequest(request.environ).get_cookie` for it")
        return self.cookies.get(key, default)

    @property
    def auth(self):
        """Name and password of HTTP Basic, or None. A route that checks the header itself does not pass it on."""
        from .wsgi import basic

        return basic(self.headers.get("authorization", ""))

    @property
    def environ(self):
        """The variables of WSGI (PEP 3333), for libraries that make a request of their own from them."""
        if self._environ is None:
            from .wsgi import environ

            self._environ = environ(self)
        return self._environ

    def get(self, key, default=None):
        return self.environ.get(key, default)

    def __getitem__(self, key):
        return self.environ[key]

    def keys(self):
        return self.environ.keys()

    def __iter__(self):
        return iter(self.environ)
