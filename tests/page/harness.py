"""Starts the page and a browser, and knows how a person finds things: by role and name.

The environment has: FNDCTL (the program), FND_SOCKET (of a running fnd), FND_FUNCTIONS (its functions directory), FND_CHROMIUM, and
FND_PAGE_TOOLS (playwright and axe-core, as scripts/setup.sh --ci installs them).
"""

import atexit
import functools
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import unittest

from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

# Long enough for a machine where every core is busy.
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)

FNDCTL = os.environ["FNDCTL"]
SOCKET = os.environ["FND_SOCKET"]
FUNCTIONS = pathlib.Path(os.environ["FND_FUNCTIONS"])

# Whatever a browser asks of others by itself is off, so that each request to another host is one of the page.
FLAGS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-first-run",
    "--no-pings",
    # Names of a stranger, at the address of the page: DNS rebinding.
    "--host-resolver-rules=MAP *.test 127.0.0.1",
]


def fndctl(*words: str, code: int | None = 0, data: bytes = b"") -> str:
    """Runs fndctl and returns what it prints."""
    done = subprocess.run([FNDCTL, *words], input=data, capture_output=True, timeout=120)
    if code is not None and done.returncode != code:
        raise AssertionError(f"fndctl {words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout.decode(errors="replace")


class Control(http.client.HTTPConnection):
    """A connection to the control socket."""

    def __init__(self) -> None:
        super().__init__("fnd", timeout=120)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(SOCKET)

    def ask(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> dict:
        try:
            self.request(method, path, body, headers or {})
            return json.loads(self.getresponse().read() or b"{}")
        finally:
            self.close()


def wait_for(what: str, condition):
    """Checks a condition until it returns something true, and returns that."""
    end = time.monotonic() + PATIENCE_MS / 1000
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)  # the state of another process can only be looked at
    raise AssertionError(f"waited in vain for {what}")


@functools.cache
def browser() -> Browser:
    """The one browser of all tests."""
    playwright = sync_playwright().start()
    flags = FLAGS + (["--no-sandbox"] if os.geteuid() == 0 else [])
    path = os.environ["FND_CHROMIUM"]
    started = playwright.chromium.launch(executable_path=path, args=flags, chromium_sandbox=os.geteuid() != 0)

    def end() -> None:
        started.close()
        playwright.stop()

    atexit.register(end)
    return started


class Served:
    """A running `fndctl web`. Its token gives one session, which all contexts of its tests share."""

    def __init__(self, *options: str, before: tuple[str, ...] = (), program: str = FNDCTL) -> None:
        words = [*before, program, "web", "--port", "0", *options]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"(http://127\.0\.0\.1:\d+)/#token=(\w+)", line)
        if not found:
            raise AssertionError(f"`fndctl web` printed no address: {line!r}")
        self.origin, self.token = found.groups()
        self.address = found.group(0)
        self.cookies: dict | None = None

    @property
    def port(self) -> int:
        return int(self.origin.rsplit(":", 1)[1])

    def context(self, **options) -> BrowserContext:
        """Returns a browser of the person, signed in if the token was used before."""
        options.setdefault("viewport", {"width": 1280, "height": 900})
        options.setdefault("reduced_motion", "reduce")
        context = browser().new_context(storage_state=self.cookies, **options)
        context.set_default_timeout(PATIENCE_MS)
        return context

    def sign_in(self) -> None:
        """Uses the token as a person does who opens the address."""
        context = self.context()
        page = context.new_page()
        page.goto(self.address)
        expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
        self.cookies = context.storage_state()
        context.close()

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=60)
        self.process.stdout.close()


class PageTest(unittest.TestCase):
    """Tests of one `fndctl web`, with a page of the browser for each."""

    options: tuple[str, ...] = ()
    look: dict = {}
    served: Served

    @classmethod
    def setUpClass(cls) -> None:
        cls.served = Served(*cls.options)
        cls.addClassCleanup(cls.served.end)
        cls.served.sign_in()

    def setUp(self) -> None:
        self.context = self.served.context(**self.look)
        self.addCleanup(self.context.close)
        self.strangers: list[str] = []
        self.errors: list[str] = []
        self.context.on("request", self._seen)
        self.context.on("weberror", lambda error: self.errors.append(str(error.error)))
        self.context.on("console", self._printed)
        self.page = self.context.new_page()
        self.addCleanup(self._nothing_strange)
        if directory := os.environ.get("FND_PAGE_PICTURES"):
            # What the test saw last, for the person who reads its failure.
            self.addCleanup(lambda: self.page.screenshot(path=f"{directory}/{self.id()}.png", full_page=True))

    def _seen(self, request) -> None:
        if not request.url.startswith((self.served.origin + "/", "data:", "blob:", "about:")):
            self.strangers.append(request.url)

    def _printed(self, message) -> None:
        # A refused script is told here, too.
        if message.type == "error" and "the server responded with a status of" not in message.text:
            self.errors.append(message.text)

    def _nothing_strange(self) -> None:
        self.assertEqual(self.strangers, [], "the page asked other hosts")
        self.assertEqual(self.errors, [], "the browser reported errors")

    def open(self, path: str, status: int = 200) -> Page:
        answer = self.page.goto(self.served.origin + path)
        self.assertEqual(answer.status, status, path)
        return self.page

    def press(self, name: str, within=None) -> None:
        """Presses a button, or a link that looks like one."""
        place = within or self.page
        button = place.get_by_role("button", name=name, exact=True)
        button.or_(place.get_by_role("link", name=name, exact=True)).first.click()

    def go(self, name: str, within=None) -> None:
        """Presses what leads to another page, and waits until that is there."""
        with self.page.expect_navigation():
            self.press(name, within)

    def post(self, path: str, form: dict[str, str]):
        """Sends a form that the page may not offer, as a browser sends the page's own."""
        headers = {"origin": self.served.origin, "sec-fetch-site": "same-origin"}
        return self.context.request.post(self.served.origin + path, form=form, headers=headers)

    def region(self, name: str):
        return self.page.get_by_role("region", name=name, exact=True)

    def table(self, name: str):
        return self.page.get_by_role("table", name=name, exact=True)


@functools.cache
def axe_source() -> str:
    path = pathlib.Path(os.environ["FND_PAGE_TOOLS"], "package/axe.min.js")
    return path.read_text()


RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def violations(page: Page) -> list[str]:
    """Returns what axe-core finds against WCAG 2.2, levels A and AA."""
    page.evaluate(axe_source())
    found = page.evaluate("rules => axe.run(document, { runOnly: { type: 'tag', values: rules } })", RULES)
    return [
        f"{page.url}: {one['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]
