"""A program that serves HTTP: fnd starts it when it is called, keeps it running, and passes requests to it.

It listens on the port in $PORT. What it prints is the log. Any framework works in the same way.
"""

import http.server
import json
import os


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer({"path": self.path})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.answer({"path": self.path, "bytes": len(body)})

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
