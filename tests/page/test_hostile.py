"""What functions say, and what strangers send, is text: it runs no script, makes no element and forges no row."""

import http.client
import urllib.parse

import night
from harness import PageTest, expect

MARKUP = "<script>window.attacked = 'address'</script>"


class Hostile(PageTest):
    @classmethod
    def setUpClass(cls) -> None:
        night.prepare()
        # Headers and a name of a file that attack, as a stranger sends them.
        attack = {"content-type": "text/html; x=\"<script>window.attacked='type'</script>\"", "traceparent": "<script>"}
        night.Control().ask("POST", "/v1/functions/hostile/invocations", b"<script>window.attacked='raw'</script>", attack)
        night.save("<img src=x onerror=alert(1)>.sh", "echo\n")
        night.fndctl("reload", "--ignore-invalid")
        cls.addClassCleanup((night.FUNCTIONS / "<img src=x onerror=alert(1)>.sh").unlink)
        super().setUpClass()

    def is_unharmed(self) -> None:
        # A script that was made an element would have run by now, or be there.
        self.assertIsNone(self.page.evaluate("window.attacked ?? null"))
        self.assertEqual(self.page.locator("script:not([src])").count(), 0)
        self.assertEqual(self.page.locator("img[src=x], svg[onload], [onerror], [onload]").count(), 0)
        self.assertEqual(self.page.locator("a[href^='javascript:' i]").count(), 0)

    def test_no_page_is_attacked_by_what_functions_say(self) -> None:
        run = night.newest("hostile")
        for path in ["/", "/functions", "/functions/hostile", "/functions/hostile-form", f"/runs/{run}", "/history", "/history?function=hostile", "/dead-letters", "/node"]:
            with self.subTest(path=path):
                self.open(path)
                self.is_unharmed()

    def test_output_is_lines_of_text(self) -> None:
        finished = next(run for run in night.runs("hostile") if run["state"] == "failed")
        self.open(f"/runs/{finished['id']}")
        output = self.region("Output")
        expect(output).to_contain_text("<script>window.attacked = 'script'</script>")
        expect(output).to_contain_text("&lt;b&gt; stays &amp;lt;")
        # The line overwrites itself: its last state is shown.
        expect(output).to_contain_text("DONE")
        expect(output).not_to_contain_text("10%")
        self.assertNotIn("\x1b", self.page.content())
        # One row for each line that fnd has, and none that a line has made.
        lines = night.Control().ask("GET", f"/v1/invocations/{finished['id']}/logs")["lines"]
        self.assertEqual(output.get_by_role("log").locator("> *").count(), len(lines))
        forged = output.get_by_text("forged", exact=True)
        expect(forged).to_have_count(0)
        self.is_unharmed()

    def test_raw_output_is_no_document(self) -> None:
        run = night.newest("hostile")
        answer = self.context.request.get(f"{self.served.origin}/runs/{run}/raw")
        self.assertTrue(answer.headers["content-type"].startswith("text/plain"), answer.headers)
        self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
        self.assertTrue(answer.headers["content-disposition"].startswith("attachment"), answer.headers)

    def test_addresses_that_attack_are_shown_as_text(self) -> None:
        markup = urllib.parse.quote(MARKUP, safe="")
        quoted = urllib.parse.quote('"><script>window.attacked = 1</script>', safe="")
        for path in [
            f"/functions?q={markup}",
            f"/functions?q={quoted}",
            f"/functions?label={quoted}",
            f"/functions?state={quoted}",
            f"/functions/{markup}",
            f"/runs/{markup}",
            f"/history?function={quoted}",
            f"/history?state={markup}",
            f"/history?reason={quoted}",
            f"/history?since={quoted}",
            f"/runs/{night.newest('chatty')}?q={quoted}",
            f"/login?next={quoted}",
            f"/{markup}",
        ]:
            with self.subTest(path=path):
                self.page.goto(self.served.origin + path)
                self.is_unharmed()

    def test_a_value_that_attacks_comes_back_in_its_field(self) -> None:
        for function, region in [("hostile", "Payload"), ("hostile-form", "Result")]:
            self.open(f"/functions/{function}")
            self.is_unharmed()
            form = self.page.get_by_role("form", name="Run", exact=True)
            form.get_by_role("textbox").first.fill(MARKUP)
            self.go("Run", form)
            night.wait_for("its end", lambda: night.runs(function)[0]["ended_at"])
            self.page.reload()
            expect(self.region(region)).to_contain_text("<script>")
            self.is_unharmed()

    def test_a_login_leads_to_this_page_only(self) -> None:
        for target in ["https://evil.test/", "//evil.test/", "/\\evil.test/", "javascript:alert(1)"]:
            with self.subTest(target=target):
                self.page.goto(f"{self.served.origin}/login?next={urllib.parse.quote(target, safe='')}")
                for link in self.page.locator("a[href], form[action]").all():
                    address = link.get_attribute("href") or link.get_attribute("action")
                    self.assertTrue(address.startswith("/") and not address.startswith("//"), address)

    def test_headers_cannot_be_forged(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.served.port, timeout=60)
        connection.request("GET", "/functions?q=a%0d%0aSet-Cookie:%20x=y%0d%0a")
        answer = connection.getresponse()
        self.assertNotIn("x=y", answer.headers.get("set-cookie", ""))
        connection.close()
