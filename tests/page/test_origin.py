"""Who may use the page: its own origin, with its own session, at its own address. Pages of others can send it requests as well."""

import http.client
import http.server
import threading
import urllib.parse

import night
from harness import PageTest, Served, browser, expect


class Stranger(http.server.ThreadingHTTPServer):
    """A page of somebody else, on this machine."""

    def __init__(self, body: str) -> None:
        page = body.encode()

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_arguments) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return self.server_address[1]


class Origin(PageTest):
    @classmethod
    def setUpClass(cls) -> None:
        night.prepare()
        super().setUpClass()

    def stranger(self, body: str) -> Stranger:
        server = Stranger(body)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def visit(self, address: str):
        """Opens an address in the browser of the person, where other hosts are asked on purpose."""
        context = self.served.context()
        self.addCleanup(context.close)
        page = context.new_page()
        answer = page.goto(address)
        return page, answer

    def ask(self, method: str, path: str, headers: dict[str, str], body: str | None = None):
        """Sends a request with any headers, which a browser would not."""
        connection = http.client.HTTPConnection("127.0.0.1", self.served.port, timeout=60)
        self.addCleanup(connection.close)
        connection.putrequest(method, path, skip_host=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("content-length", str(len(body)))
        connection.endheaders(body.encode() if body is not None else None)
        return connection.getresponse()

    def cookie(self) -> str:
        cookies = self.served.cookies["cookies"]
        return "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in cookies)

    def form(self) -> str:
        """Returns the address to which the form "Run" of a function goes."""
        self.open("/functions/web%2Fhello")
        return self.page.get_by_role("form", name="Run", exact=True).get_attribute("action")

    def test_a_name_that_points_here_is_refused(self) -> None:
        """DNS rebinding: the browser sends what the stranger's name makes it send, with that name as the host."""
        _, answer = self.visit(f"http://evil.test:{self.served.port}/")
        self.assertEqual(answer.status, 421)
        for host in ["evil.test", f"evil.test:{self.served.port}", "127.0.0.1.evil.test", "fnd", ""]:
            with self.subTest(host=host):
                answer = self.ask("GET", "/", {"host": host, "cookie": self.cookie()})
                self.assertIn(answer.status, [400, 421])
                self.assertNotIn(b"Needs attention", answer.read())

    def test_forms_of_other_sites_do_nothing(self) -> None:
        target = self.served.origin + self.form()
        form = f'<form method="post" action="{target}"><input name="payload" value="x"></form><script>onload = () => setTimeout(() => document.forms[0].submit(), 50)</script>'
        server = self.stranger(form)
        before = len(night.runs("web/hello"))
        # Another port is another origin of the same site, so that the browser sends the cookie; the other name is another site.
        for host in ["127.0.0.1", "localhost", "evil.test"]:
            with self.subTest(host=host):
                page, _ = self.visit(f"http://{host}:{server.port}/")
                page.wait_for_url(target)
                expect(page.get_by_role("heading", level=1)).to_be_visible()
                self.assertEqual(len(night.runs("web/hello")), before)

    def test_a_form_needs_origin_site_session_and_type(self) -> None:
        good = {
            "host": f"127.0.0.1:{self.served.port}",
            "origin": self.served.origin,
            "sec-fetch-site": "same-origin",
            "content-type": "application/x-www-form-urlencoded",
            "cookie": self.cookie(),
        }
        path = self.form()
        before = len(night.runs("web/hello"))
        for name, value in [
            ("origin", None),
            ("origin", "null"),
            ("origin", "http://evil.test"),
            ("origin", f"http://127.0.0.1:{self.served.port + 1}"),
            ("sec-fetch-site", None),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "none"),
            ("cookie", None),
            ("cookie", self.cookie()[:-1] + "x"),
            ("content-type", "application/json"),
            ("content-type", "text/plain"),
        ]:
            with self.subTest(name=name, value=value):
                headers = {key: text for key, text in {**good, name: value}.items() if text is not None}
                answer = self.ask("POST", path, headers, "payload=x")
                self.assertGreaterEqual(answer.status, 400)
        self.assertEqual(len(night.runs("web/hello")), before)
        self.assertEqual(self.ask("POST", path, good, "payload=x").status, 303)
        night.wait_for("the run of the page's own form", lambda: len(night.runs("web/hello")) == before + 1)

    def test_no_other_page_can_frame_it_or_read_it(self) -> None:
        inner = f"{self.served.origin}/"
        server = self.stranger(
            f'<iframe src="{inner}"></iframe><script>fetch("{inner}", {{ credentials: "include" }})'
            '.then((answer) => answer.text()).then((text) => { document.title = text }, () => { document.title = "refused" })</script>'
        )
        for host in ["127.0.0.1", "evil.test"]:
            with self.subTest(host=host):
                page, _ = self.visit(f"http://{host}:{server.port}/")
                expect(page).to_have_title("refused")
                for frame in page.frames[1:]:
                    self.assertEqual(frame.get_by_text("Needs attention").count(), 0)

    def test_an_address_is_of_no_use_to_others(self) -> None:
        other = browser().new_context()
        self.addCleanup(other.close)
        page = other.new_page()
        self.assertEqual(page.goto(f"{self.served.origin}/functions").status, 401)
        expect(page.get_by_label("Token")).to_be_visible()
        # The token was used: whoever finds it in a history or over a shoulder gets nothing.
        page.goto("about:blank")
        page.goto(self.served.address)
        expect(page.get_by_label("Token")).to_be_visible()
        expect(page.get_by_role("heading", name="Overview", level=1)).to_have_count(0)
        for path in ["/stream", "/runs/x/follow", "/functions/web%2Fhello"]:
            self.assertEqual(other.request.get(self.served.origin + path).status, 401, path)

    def test_the_token_does_not_stay_in_the_address(self) -> None:
        served = Served()
        self.addCleanup(served.end)
        context = served.context()
        self.addCleanup(context.close)
        page = context.new_page()
        page.goto(served.address)
        expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
        self.assertNotIn(served.token, page.url)
        self.assertNotIn(served.token, page.content())
        [cookie] = context.cookies()
        self.assertTrue(cookie["httpOnly"] and cookie["sameSite"] == "Strict", cookie)
        self.assertEqual(page.evaluate("document.cookie"), "")

    def test_two_pages_keep_their_sessions(self) -> None:
        """A cookie of a host goes to all of its ports."""
        other = Served()
        self.addCleanup(other.end)
        page, _ = self.visit(other.address)
        for origin in [other.origin, self.served.origin, other.origin]:
            page.goto(f"{origin}/")
            expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()

    def test_every_answer_has_the_headers_that_protect_it(self) -> None:
        style = self.page.goto(self.served.origin + "/") and self.page.locator("link[rel=stylesheet]").get_attribute("href")
        for path in ["/", "/functions", "/nothing", "/login", style, f"/runs/{night.newest('nightly')}/raw"]:
            with self.subTest(path=path):
                headers = self.context.request.get(urllib.parse.urljoin(self.served.origin, path)).headers
                policy = headers["content-security-policy"]
                for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"]:
                    self.assertIn(rule, policy)
                self.assertNotIn("unsafe", policy)
                self.assertEqual(headers["x-content-type-options"], "nosniff")
                self.assertEqual(headers["referrer-policy"], "same-origin")
