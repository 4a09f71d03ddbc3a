"""Serves a directory by HTTPS to one user: `python3 server.py DIRECTORY CERTIFICATE USER:PASSWORD`. Prints its port."""

import base64
import functools
import http.server
import ssl
import sys

directory, certificate, user = sys.argv[1:]
EXPECTED = "Basic " + base64.b64encode(user.encode()).decode()


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.headers["Authorization"] == EXPECTED:
            return super().do_GET()
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=directory))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
