"""Reads the forms of a request: `application/x-www-form-urlencoded` and `multipart/form-data` (RFC 7578).

The body is in memory already, and `limits.body` bounds it. So files are views of it; a file goes to `TMPDIR` only when its
`path` is asked for. The reader is strict: whatever a browser or curl would not send is a `BadRequest`.
"""

import io
import os
import re

from fnd import BadRequest

from .values import Values

PARTS_MAX = 1000
HEAD_MAX = 8 << 10
NAME_MAX = 255
FIELDS_MAX = 10000
BOUNDARY = re.compile(r"""[0-9A-Za-z'()+_,./:=?\- ]{0,69}[0-9A-Za-z'()+_,./:=?\-]""")
# Spaces are spelled out: what `\s` and `strip` take for space differs between languages, and so would the answers.
HEADER = re.compile(r"""([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([^\x00-\x08\x0a-\x1f\x7f]*)""")
# One parameter of a header: a token, or a quoted string in which only the quote may be escaped.
PARAMETER = re.compile(r""";[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)=(?:"((?:[^"\\]|\\[\s\S])*)"|([^ \t";]*))[ \t]*""")
CHARSETS = {"utf-8": "utf-8", "utf8": "utf-8", "us-ascii": "ascii", "iso-8859-1": "latin-1"}
SPACE = " \t"


class File:
    """A file of a form."""

    def __init__(self, name, raw_filename, content_type, data):
        self.name, self.raw_filename, self.content_type = name, raw_filename, content_type
        self.filename = base_name(raw_filename)
        self._data, self._file, self._path = data, None, None

    @property
    def size(self):
        return len(self._data)

    content_length = size

    def read(self, size=-1):
        return self.file.read(size)

    @property
    def file(self):
        """The content, as a file that is open for reading."""
        if self._file is None:
            self._file = io.BytesIO(self._data)
        return self._file

    stream = file

    @property
    def path(self):
        """A file in `TMPDIR` with the content. It is removed with this object, unless the handler has moved it."""
        if self._path is None:
            from tempfile import mkstemp

            handle, self._path = mkstemp(prefix="upload-", dir=os.environ.get("TMPDIR"))
            with open(handle, "wb") as file:
                file.write(self._data)
        return self._path

    def save(self, destination, overwrite=False, chunk_size=None):
        """Writes the content to a file, or into a directory under `filename`, or to an open file."""
        if hasattr(destination, "write"):
            destination.write(self._data)
            return
        if os.path.isdir(destination):
            destination = os.path.join(destination, self.filename)
        with open(destination, "wb" if overwrite else "xb") as file:
            file.write(self._data)

    def __len__(self):
        return len(self._data)

    def __bool__(self):
        return True

    def __del__(self):
        if self._path is not None:
            try:
                os.unlink(self._path)
            except OSError:
                pass


def base_name(raw):
    """Returns the last component of a file name, which a handler may use in a directory of its own."""
    name = re.split(r"[/\\]", raw)[-1].strip(SPACE)
    return "empty" if name in ("", ".", "..") else name[-NAME_MAX:]


def urlencoded(body):
    from urllib.parse import parse_qsl

    try:
        pairs = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError:
        raise BadRequest("the form has more than %d fields" % FIELDS_MAX) from None
    return Values(pairs)


def multipart(body, content_type):
    """Returns the fields and the files of a body."""
    mark = b"\r\n--" + boundary(content_type)
    view = memoryview(body)
    fields, files = [], []
    # The line break before the first boundary is optional.
    at = len(mark) if body.startswith(mark) else len(mark) - 2
    if not (body.startswith(mark) or body.startswith(mark[2:])):
        raise BadRequest("the multipart body does not begin with its boundary")
    at, is_last = line_end(body, at)
    if at is None:
        raise BadRequest("the first boundary of the multipart body is not a line of its own")
    while not is_last:
        if len(fields) + len(files) == PARTS_MAX:
            raise BadRequest("the multipart body has more than %d parts" % PARTS_MAX)
        # A part without headers has no name, so the empty line is never at its very beginning.
        head_end = body.find(b"\r\n\r\n", at, at + HEAD_MAX)
        if head_end < 0:
            raise BadRequest("the headers of part %d do not end within 8 KiB" % (len(fields) + len(files) + 1))
        name, filename, kind = headers(body[at:head_end])
        end, after, is_last = content_end(body, head_end + 2, mark)
        # An empty part ends at the line break of its headers.
        data = view[head_end + 4 : end] if end >= head_end + 4 else view[:0]
        if filename is None:
            fields.append((name, text(bytes(data), name, kind)))
        else:
            media_type = kind or "application/octet-stream"
            files.append((name, File(name, filename, media_type, data)))
        at = after
    return Values(fields), Values(files)


def content_end(body, at, mark):
    """Returns where a content ends, where the next part begins, and whether there is none."""
    while True:
        found = body.find(mark, at)
        if found < 0:
            raise BadRequest("the multipart body ends before its last boundary")
        after, is_last = line_end(body, found + len(mark))
        if after is not None:
            return found, after, is_last
        # The content has the boundary as the beginning of a longer line.
        at = found + 2


def line_end(body, at):
    """Returns the end of a boundary's line and whether it is the last one; no end where it is none."""
    if body.startswith(b"--", at):
        return at, True
    while body[at : at + 1] in (b" ", b"\t"):
        at += 1
    return (at + 2, False) if body.startswith(b"\r\n", at) else (None, False)


def boundary(content_type):
    value = parameters(content_type).get("boundary", "")
    if not BOUNDARY.fullmatch(value):
        raise BadRequest("the content type `multipart/form-data` has no valid `boundary`")
    return value.encode()


def headers(block):
    """Returns name, file name and content type of a part."""
    try:
        lines = block.decode().split("\r\n")
    except UnicodeDecodeError:
        raise BadRequest("the headers of a part are not UTF-8") from None
    known = {}
    for line in lines:
        match = HEADER.fullmatch(line)
        if not match:
            raise BadRequest("a part has an invalid header line")
        key = match[1].lower()
        if key in known:
            raise BadRequest("a part has the header `%s` twice" % key)
        known[key] = match[2].strip(SPACE)
    disposition = known.get("content-disposition", "")
    if disposition.partition(";")[0].strip(SPACE).lower() != "form-data":
        raise BadRequest("a part has no header `Content-Disposition: form-data`")
    found = parameters(disposition)
    if "name" not in found:
        raise BadRequest("a part of the form has no name")
    kind = known.get("content-type")
    if kind and kind.lower().startswith("multipart/"):
        raise BadRequest("a part of the form is a multipart body itself")
    return found["name"], found.get("filename"), kind


def parameters(header):
    """Returns the parameters of a header."""
    found, at = {}, header.find(";")
    while 0 <= at < len(header):
        match = PARAMETER.match(header, at)
        if not match:
            raise BadRequest("a header has invalid parameters")
        name, quoted, token = match.groups()
        if name.lower() in found:
            raise BadRequest("a header has the parameter `%s` twice" % name)
        # Browsers send a quote as `%22`; others escape it. Any other backslash is a part of the value.
        found[name.lower()] = token if quoted is None else quoted.replace('\\"', '"').replace("%22", '"')
        at = match.end()
    return found


def text(data, name, kind):
    charset = parameters(kind).get("charset", "utf-8").lower() if kind else "utf-8"
    if charset not in CHARSETS:
        raise BadRequest("the field `%s` has the character set `%s`, which is not supported" % (name[:64], charset[:64]))
    try:
        return data.decode(CHARSETS[charset])
    except UnicodeDecodeError:
        raise BadRequest("the field `%s` is not %s" % (name[:64], charset)) from None
