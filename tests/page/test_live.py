"""Live changes: what happens is on the page without a reload, output is followed, and a tab that nobody sees asks nothing."""

import os
import re
import tempfile

import night
from harness import SOCKET, PageTest, Served, expect

HIDE = """state => {
    Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => state });
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => state === 'hidden' });
    document.dispatchEvent(new Event('visibilitychange'));
}"""


def is_stream(request) -> bool:
    return "/stream" in request.url


class Live(PageTest):
    @classmethod
    def setUpClass(cls) -> None:
        night.prepare()
        super().setUpClass()

    def start_slow(self) -> str:
        id = night.fndctl("invoke", "slow", "--async").strip()
        self.addCleanup(lambda: night.fndctl("cancel", id, code=None))
        night.wait_for("a run", lambda: night.show("slow").get("running"))
        return id

    def test_what_begins_and_ends_is_shown(self) -> None:
        with self.page.expect_request(is_stream):
            self.open("/")
        running = self.region("Running now")
        expect(running.get_by_role("link", name="slow", exact=True)).to_have_count(0)
        id = self.start_slow()
        expect(running.get_by_role("link", name="slow", exact=True)).to_be_visible()
        night.fndctl("cancel", id)
        expect(running.get_by_role("link", name="slow", exact=True)).to_have_count(0)

    def test_a_field_that_somebody_fills_is_left_alone(self) -> None:
        with self.page.expect_request(is_stream):
            self.open("/functions/quick")
        text = self.page.get_by_role("textbox", name="Payload", exact=True)
        text.fill("half of a thought")
        runs = self.table("Runs")
        before = runs.locator("tbody tr").first.inner_text()
        night.fndctl("invoke", "quick")
        expect(runs.locator("tbody tr").first).not_to_have_text(before)
        expect(text).to_have_value("half of a thought")
        expect(text).to_be_focused()

    def test_output_is_followed_until_somebody_stops(self) -> None:
        id = self.start_slow()
        self.open(f"/runs/{id}")
        follow = self.page.get_by_role("button", name="Follow", exact=True)
        expect(follow).to_have_attribute("aria-pressed", "false")
        follow.click()
        expect(follow).to_have_attribute("aria-pressed", "true")
        lines = self.region("Output").get_by_role("log").locator("> *")
        before = lines.count()
        night.wait_for("new lines", lambda: self.page.wait_for_timeout(50) or lines.count() > before + 3)
        with self.page.expect_event("requestfailed", lambda request: "/follow" in request.url):
            follow.click()
        expect(follow).to_have_attribute("aria-pressed", "false")

    def test_following_ends_with_the_run(self) -> None:
        id = self.start_slow()
        self.open(f"/runs/{id}")
        self.page.get_by_role("button", name="Follow", exact=True).click()
        expect(self.region("Output")).to_contain_text(re.compile(r"tick \d+"))
        night.fndctl("cancel", id)
        expect(self.page.get_by_role("main").get_by_text("cancelled", exact=True).first).to_be_visible()
        expect(self.page.get_by_role("button", name="Run again", exact=True)).to_be_visible()

    def test_the_end_of_a_run_is_shown_beside_a_search_without_another_search(self) -> None:
        id = self.start_slow()
        with self.page.expect_request(is_stream):
            self.open(f"/runs/{id}?q=tick")
        with self.page.expect_request(lambda request: request.url.endswith(f"/runs/{id}")):
            night.fndctl("cancel", id)
        expect(self.page.get_by_role("button", name="Run again", exact=True)).to_be_visible()
        self.assertIn("q=tick", self.page.url)

    def test_what_ends_before_the_page_listens_is_shown(self) -> None:
        id = self.start_slow()

        def late(route) -> None:
            night.fndctl("cancel", id)
            night.wait_for("the end", lambda: not night.show("slow").get("running"))
            route.continue_()

        self.page.route(lambda url: "/stream" in url, late)
        self.open(f"/runs/{id}")
        expect(self.page.get_by_role("main").get_by_text("cancelled", exact=True).first).to_be_visible()

    def test_the_end_of_a_run_that_nobody_follows_shows_its_output(self) -> None:
        id = self.start_slow()
        self.open(f"/runs/{id}")
        output = self.region("Output")
        before = output.get_by_role("log").locator("> *").count()
        night.wait_for("more lines", lambda: night.fndctl("logs", "--id", id).count("tick") > before + 1)
        night.fndctl("cancel", id)
        expect(output.get_by_role("button", name="Follow", exact=True)).to_have_count(0)
        expect(output.get_by_role("log").locator("> *").nth(before)).to_contain_text("tick")

    def test_a_page_that_does_not_change_is_in_use_while_it_is_seen(self) -> None:
        with self.page.expect_request(is_stream):
            self.open(f"/runs/{night.newest('nightly')}")

    def test_a_hidden_tab_closes_its_stream(self) -> None:
        # A run of another test may still be ending.
        night.wait_for("the end", lambda: not night.show("slow").get("running"))
        with self.page.expect_request(is_stream):
            self.open("/")
        with self.page.expect_event("requestfailed", is_stream):
            self.page.evaluate(HIDE, "hidden")
        # What happened meanwhile is there when somebody looks again.
        id = self.start_slow()
        expect(self.region("Running now").get_by_role("link", name="slow", exact=True)).to_have_count(0)
        with self.page.expect_request(is_stream):
            self.page.evaluate(HIDE, "visible")
        expect(self.region("Running now").get_by_role("link", name="slow", exact=True)).to_be_visible()
        night.fndctl("cancel", id)

    def test_ten_tabs_leave_the_browser_its_connections(self) -> None:
        """A browser has six connections for a host: tabs that all keep one would block each other."""
        for _ in range(10):
            page = self.context.new_page()
            page.goto(self.served.origin + "/")
            expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
            page.evaluate(HIDE, "hidden")
        self.open("/functions")
        expect(self.table("Functions")).to_be_visible()


class Away(PageTest):
    """fnd does not answer, and comes back."""

    @classmethod
    def setUpClass(cls) -> None:
        night.prepare()
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.socket = os.path.join(directory.name, "control.sock")
        cls.options = ("--control", cls.socket)
        os.symlink(SOCKET, cls.socket)
        super().setUpClass()

    def test_the_page_says_so_and_comes_back_by_itself(self) -> None:
        os.unlink(self.socket)
        self.open("/functions", status=503)
        expect(self.page.get_by_role("heading", name="fnd does not answer", level=1)).to_be_visible()
        expect(self.page.get_by_role("main")).to_contain_text("systemctl status fnd")
        os.symlink(SOCKET, self.socket)
        expect(self.page.get_by_role("heading", name="Functions", level=1)).to_be_visible()


class ReadOnly(PageTest):
    """`--read-only`: nothing is offered, and nothing is done."""

    options = ("--read-only",)

    @classmethod
    def setUpClass(cls) -> None:
        night.prepare()
        super().setUpClass()

    def test_nothing_is_offered(self) -> None:
        run = night.newest("nightly")
        for path in ["/", "/functions/nightly", f"/runs/{run}", "/dead-letters", "/schedules"]:
            self.open(path)
            for name in ["Run", "Run again", "Disable", "Roll back", "Pin", "Redrive", "Drop", "Pause", "Cancel"]:
                with self.subTest(path=path, name=name):
                    expect(self.page.get_by_role("button", name=name, exact=True)).to_have_count(0)

    def test_what_is_tried_is_refused(self) -> None:
        before = len(night.runs("web/hello"))
        answer = self.post("/functions/web%2Fhello/run", {"payload": ""})
        self.assertEqual(answer.status, 403)
        self.assertEqual(len(night.runs("web/hello")), before)


class Idle(PageTest):
    """The page ends when nobody has used it for a time."""

    def test_it_ends(self) -> None:
        served = Served("--idle", "2s")
        night.wait_for("its end", lambda: served.process.poll() is not None)
        self.assertEqual(served.process.returncode, 0)
        served.process.stdout.close()
