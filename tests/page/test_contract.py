"""Every page has the parts that docs/page.md promises, under the roles and names by which people and programs find them."""

import re

import night
from harness import PageTest, expect


class Contract(PageTest):
    @classmethod
    def setUpClass(cls) -> None:
        night.prepare()
        super().setUpClass()

    def has(self, role: str, *names: str) -> None:
        for name in names:
            with self.subTest(role=role, name=name):
                expect(self.page.get_by_role(role, name=name, exact=True).first).to_be_visible()

    def has_columns(self, table: str, *columns: str) -> None:
        for column in columns:
            with self.subTest(table=table, column=column):
                expect(self.table(table).get_by_role("columnheader", name=re.compile(column, re.I)).first).to_be_attached()

    def test_every_page_has_landmarks_a_title_and_one_heading(self) -> None:
        run = night.newest("nightly")
        for path in ["/", "/functions", "/functions/greet", f"/runs/{run}", "/history", "/dead-letters", "/schedules", "/node"]:
            with self.subTest(path=path):
                self.open(path)
                for landmark in ["banner", "main", "navigation"]:
                    expect(self.page.get_by_role(landmark)).to_have_count(1)
                expect(self.page.get_by_role("heading", level=1)).to_have_count(1)
                heading = self.page.get_by_role("heading", level=1).inner_text()
                self.assertIn(heading, self.page.title())
                self.assertEqual(self.page.locator("html").get_attribute("lang"), "en")

    def test_overview(self) -> None:
        self.open("/")
        self.has("heading", "Overview")
        self.has("region", "Needs attention", "Running now", "Next", "Last 24 hours")
        attention = self.region("Needs attention")
        expect(attention.get_by_role("link", name="nightly", exact=True)).to_be_visible()
        expect(attention).to_contain_text("no such host: db1")
        expect(attention.get_by_role("link", name="broken", exact=True)).to_be_visible()
        expect(attention.get_by_role("link", name=re.compile("dead letters"))).to_be_visible()
        letters = attention.get_by_role("listitem").filter(has_text="failed for good")
        expect(letters).to_contain_text("since")
        expect(self.region("Next").get_by_role("link", name="nightly", exact=True)).to_be_visible()

    def test_functions(self) -> None:
        self.open("/functions")
        self.has("heading", "Functions")
        self.has("table", "Functions")
        self.has_columns("Functions", "Name", "Runtime", "State", "Last run", "Next", "Runs", "Failed", "p50", "p99", "Memory")
        self.page.get_by_role("searchbox", name="Search", exact=True).fill("web/")
        self.page.keyboard.press("Enter")
        expect(self.table("Functions").get_by_role("link", name="web/hello", exact=True)).to_be_visible()
        expect(self.table("Functions").get_by_role("link", name="nightly", exact=True)).to_have_count(0)
        self.assertIn("q=web", self.page.url)
        self.open("/functions?label=team%3Dshop")
        expect(self.table("Functions").locator("tbody tr")).to_have_count(1)

    def test_function(self) -> None:
        self.open("/functions/nightly")
        self.has("heading", "nightly", "Limits")
        self.has("button", "Run", "Disable")
        self.has("form", "Run")
        self.has("textbox", "Payload")
        self.has("table", "Runs", "Releases", "Schedules")
        self.has("button", "Roll back", "Pin")
        # The chart has the same numbers as a table, for people who do not see it.
        expect(self.page.get_by_role("img").first).to_be_attached()
        self.open("/functions/web%2Fhello")
        self.has("table", "Routes")
        self.open("/functions/greet")
        for name in ["Name", "Count", "Loud", "Colour"]:
            expect(self.page.get_by_label(re.compile(f"^{name}"))).to_be_visible()

    def test_function_shows_what_differs_between_releases(self) -> None:
        self.open("/functions/nightly")
        with self.page.expect_navigation():
            self.table("Releases").locator("a[href*='/diff']").first.click()
        difference = self.page.get_by_role("main")
        expect(difference).to_contain_text(re.compile(r'\+\s*echo "no such host: db1" >&2'))
        expect(difference).to_contain_text(re.compile(r'-\s*echo "dumped shop"'))

    def test_run(self) -> None:
        self.open(f"/runs/{night.newest('nightly')}")
        self.has("table", "Attempts")
        self.has("region", "Output", "Payload", "Result")
        self.has("button", "Run again")
        expect(self.region("Output")).to_contain_text("connecting to db1")
        expect(self.region("Output")).to_contain_text("stderr")
        with self.page.expect_download() as download:
            self.region("Output").get_by_role("link", name="Raw", exact=True).click()
        text = download.value.path().read_text()
        self.assertEqual(sorted(text.splitlines()), ["connecting to db1", "no such host: db1"])

    def test_output_is_shown_in_parts_and_searched_as_a_whole(self) -> None:
        self.open(f"/runs/{night.newest('chatty')}")
        output = self.region("Output")
        expect(output.get_by_text("line 2500", exact=True)).to_be_visible()
        expect(output.get_by_text("line 1500", exact=True)).to_have_count(0)
        self.go("Earlier", output)
        expect(self.region("Output").get_by_text("line 1500", exact=True)).to_be_visible()
        self.region("Output").get_by_role("searchbox", name="Search", exact=True).fill("line 17")
        self.page.keyboard.press("Enter")
        expect(self.region("Output").get_by_text("line 17", exact=True)).to_be_visible()
        expect(self.region("Output").get_by_text("line 2500", exact=True)).to_have_count(0)

    def test_history(self) -> None:
        self.open("/history?function=quick")
        self.has("heading", "History")
        self.has("form", "Filter")
        self.has("table", "Runs")
        first = self.table("Runs").locator("tbody tr").count()
        self.go("Older")
        self.assertIn("function=quick", self.page.url)
        self.assertEqual(first + self.table("Runs").locator("tbody tr").count(), 60)

    def test_history_filters_are_in_the_address(self) -> None:
        self.open("/history")
        form = self.page.get_by_role("form", name="Filter", exact=True)
        form.get_by_role("textbox", name="Function").fill("nightly")
        form.get_by_label("State").select_option("failed")
        with self.page.expect_navigation():
            form.get_by_role("button").first.click()
        self.assertIn("function=nightly", self.page.url)
        self.assertIn("state=failed", self.page.url)
        for row in self.table("Runs").locator("tbody tr").all():
            expect(row).to_contain_text("failed")
        self.open("/history?state=broken", status=400)
        expect(self.page.get_by_role("main")).to_contain_text("succeeded")

    def test_dead_letters(self) -> None:
        self.open("/dead-letters")
        self.has("heading", "Dead letters")
        self.has("table", "Dead letters")
        expect(self.page.get_by_role("main")).to_contain_text("no such mailbox: ada0@example.org")
        self.has("button", "Redrive")
        self.has("link", "Drop")

    def test_schedules(self) -> None:
        self.open("/schedules")
        self.has("heading", "Schedules")
        self.has("table", "Schedules")
        expect(self.table("Schedules")).to_contain_text("0 3 * * *")
        self.page.get_by_text("Each of these runs", exact=True).click()
        expect(self.table("Next 24 hours").get_by_role("link", name="nightly", exact=True)).to_be_visible()
        self.go("Pause")
        self.go("Resume")
        expect(self.page.get_by_role("button", name="Pause", exact=True)).to_be_visible()

    def test_node(self) -> None:
        self.open("/node")
        self.has("heading", "Node", "Problems", "Audit")
        expect(self.page.get_by_role("main")).to_contain_text("mounts")

    def test_every_action_shows_the_line_that_does_the_same(self) -> None:
        run = night.newest("nightly")
        for path, line in [
            ("/functions/nightly", "fndctl invoke nightly"),
            ("/functions/nightly", "fndctl disable nightly"),
            ("/functions/nightly", "fndctl rollback nightly RELEASE"),
            ("/functions/nightly", "fndctl schedules pause FUNCTION"),
            (f"/runs/{run}", f"fndctl replay {run}"),
            ("/dead-letters", "fndctl dead-letters redrive"),
            ("/schedules", "fndctl schedules pause"),
            ("/history?function=nightly", "fndctl history nightly"),
        ]:
            with self.subTest(path=path, line=line):
                self.open(path)
                self.assertIn(line, self.page.content())

    def test_what_is_not_there_is_told(self) -> None:
        for path in ["/functions/nobody", "/runs/01934567-89ab-7def-8123-000000000404", "/nothing"]:
            with self.subTest(path=path):
                self.open(path, status=404)
                expect(self.page.get_by_role("heading", level=1)).to_be_visible()


class LocalTime(PageTest):
    """An address has UTC, so that it means the same to everybody; the fields of the filter have the time of the person."""

    look = {"timezone_id": "America/New_York"}

    def test_history_filters_are_in_local_time(self) -> None:
        self.open("/history?since=2026-07-01T12:00:00.000Z")
        form = self.page.get_by_role("form", name="Filter", exact=True)
        since = form.get_by_label("Since", exact=True)
        expect(since).to_have_value("2026-07-01T08:00")
        # In winter the clocks differ by an hour more.
        since.fill("2026-01-01T08:00")
        self.go("Show", form)
        self.assertIn("since=2026-01-01T13%3A00%3A00.000Z", self.page.url)
        expect(since).to_have_value("2026-01-01T08:00")
        expect(self.page.get_by_role("main")).to_contain_text("fndctl history --since 2026-01-01T13:00:00Z")


class LocalTimeWithoutScript(PageTest):
    """Without script nobody knows the zone of the person."""

    look = {"timezone_id": "America/New_York", "java_script_enabled": False}

    def test_history_filters_are_in_utc(self) -> None:
        self.open("/history?since=2026-07-01T12:00:00.000Z")
        form = self.page.get_by_role("form", name="Filter", exact=True)
        since = form.get_by_label("Since (UTC)", exact=True)
        expect(since).to_have_value("2026-07-01T12:00")
        since.fill("2026-01-01T08:00")
        self.go("Show", form)
        self.assertIn("since=2026-01-01T08%3A00", self.page.url)
        expect(self.page.get_by_role("main")).to_contain_text("fndctl history --since 2026-01-01T08:00:00Z")
