"""Serves files below its state directory, by a program that speaks HTTP itself: requests pass through unchanged.

GET /v1/functions/web%2Ffiles/http/ lists them; PUT stores one.
"""
# /// fnd
# description = "A directory of files over HTTP"
# labels = { team = "web" }
# [http_server]
# ready = "/healthz"
# [pool]
# max = 1
# concurrency = 16
# [limits]
# timeout = "30s"
# body = "16M"
# ///
import http.server
import os
import pathlib

ROOT = pathlib.Path(os.environ["STATE_DIRECTORY"])


class Files(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=ROOT)

    def say(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/healthz":
            self.say(200, "ok\n")
        else:
            super().do_GET()

    def do_PUT(self):
        name = self.path.strip("/")
        length = self.headers.get("content-length")
        if length is None or not name.replace(".", "").replace("-", "").isalnum() or name.startswith("."):
            self.say(400, "a name of letters, digits, points and dashes, and a Content-Length\n")
            return
        (ROOT / name).write_bytes(self.rfile.read(int(length)))
        self.say(201, "stored\n")


http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Files).serve_forever()
