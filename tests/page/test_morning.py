"""A morning: something failed at night. Somebody sees it, reads why, goes back to the release before, and works off the rest."""

import re

import night
from harness import PageTest, Served, expect


class Morning(PageTest):
    """With script. `MorningWithoutScript` goes the same way."""

    # Each way has functions of its own, since it changes them.
    function = "morning"
    mail = "post"

    @classmethod
    def setUpClass(cls) -> None:
        night.prepare()
        night.save(f"{cls.function}.sh", night.GOOD)
        night.save(f"{cls.mail}.sh", night.FILES["mail.sh"])
        night.fndctl("reload", "--ignore-invalid")
        for name in (cls.function, cls.mail):
            night.wait_for(f"{name} to be ready", lambda: night.show(name).get("state") == "ready")
        night.fndctl("invoke", cls.function)
        night.serve(f"{cls.function}.sh", night.BAD)
        night.fndctl("invoke", cls.function, code=1)
        night.fndctl("invoke", cls.mail, "--async", "-d", "ada@example.org")
        night.wait_for("the dead letter", lambda: night.show(cls.mail).get("dead_letters") == 1)
        super().setUpClass()

    def heading(self, name) -> None:
        expect(self.page.get_by_role("heading", name=name, level=1)).to_be_visible()

    def test_a_morning(self) -> None:
        # What happened?
        self.open("/")
        attention = self.region("Needs attention")
        expect(attention).to_contain_text("no such host: db1")
        attention.get_by_role("link", name=self.function, exact=True).click()
        self.heading(self.function)
        expect(self.page.get_by_role("main")).to_contain_text("exit-3")
        self.table("Runs").get_by_role("row").filter(has_text="failed").first.get_by_role("rowheader").get_by_role("link").click()
        expect(self.region("Output")).to_contain_text("connecting to db1")

        # Was it bad luck?
        before = self.page.url
        self.go("Run again")
        self.assertIn("/runs/", self.page.url)
        self.assertFalse(self.page.url.startswith(before), self.page.url)
        self.wait_for_state("failed")

        # It was the change of yesterday: back to the release before.
        self.open(f"/functions/{self.function}")
        self.go("Roll back", self.table("Releases"))
        self.heading(self.function)
        night.wait_for("the release before to serve", self.serves_first)
        self.open(f"/functions/{self.function}")
        self.go("Run", self.page.get_by_role("form", name="Run", exact=True))
        self.assertIn("/runs/", self.page.url)
        self.wait_for_state("succeeded")
        expect(self.region("Output")).to_contain_text("dumped shop")

        # Nothing is left to do for it.
        self.open("/")
        expect(self.region("Needs attention").get_by_role("link", name=self.function, exact=True)).to_have_count(0)

    def serves_first(self) -> bool:
        releases = night.Control().ask("GET", f"/v1/functions/{self.function}/versions")["versions"]
        oldest = releases[-1]["version"]
        return night.version(self.function) == oldest

    def wait_for_state(self, state: str) -> None:
        """Waits until the page of a run shows this state; without script a person reloads it."""
        night.wait_for(f"a run to be {state}", lambda: night.runs(self.function)[0]["state"] == state)
        if not self.has_script:
            self.page.reload()
        expect(self.page.get_by_role("main").get_by_text(state, exact=True).first).to_be_visible()

    has_script = True

    def letters(self):
        return self.table("Dead letters").get_by_role("row").filter(has_text=self.mail)

    def test_dead_letters_are_redriven_or_dropped(self) -> None:
        self.open("/dead-letters")
        self.go("Redrive", self.letters().first)
        self.assertIn("/runs/", self.page.url)
        night.wait_for("the work to fail anew", lambda: night.show(self.mail).get("dead_letters") == 1)

        self.open("/dead-letters")
        self.go("Drop", self.letters().first)
        # Nothing is dropped yet: the page asks.
        expect(self.page.get_by_role("heading", level=1)).to_contain_text("Drop")
        self.go("Keep")
        self.heading("Dead letters")
        self.assertEqual(night.show(self.mail)["dead_letters"], 1)
        self.go("Drop", self.letters().first)
        self.go("Drop", self.page.get_by_role("main"))
        self.heading("Dead letters")
        expect(self.letters()).to_have_count(0)
        self.assertEqual(night.show(self.mail)["dead_letters"], 0)

    def test_a_form_makes_the_payload(self) -> None:
        self.open("/functions/greet")
        form = self.page.get_by_role("form", name="Run", exact=True)
        form.get_by_label(re.compile("^Name")).fill("Zoë")
        form.get_by_label(re.compile("^Count")).fill("3")
        form.get_by_label(re.compile("^Loud")).check()
        form.get_by_label(re.compile("^Colour")).select_option("green")
        self.go("Run", form)
        self.assertIn("/runs/", self.page.url)
        night.wait_for("the run to succeed", lambda: night.runs("greet")[0]["state"] == "succeeded")
        self.page.reload()
        for part in ['"name":"Zoë"', '"count":3', '"loud":true', '"colour":"green"']:
            expect(self.region("Result")).to_contain_text(re.compile(part.replace(":", r":\s*")))

    def test_a_function_is_disabled_and_enabled(self) -> None:
        self.open("/functions/web%2Fhello")
        self.go("Disable")
        expect(self.page.get_by_role("button", name="Enable", exact=True)).to_be_visible()
        self.assertEqual(night.show("web/hello")["state"], "disabled")
        self.go("Enable")
        expect(self.page.get_by_role("button", name="Disable", exact=True)).to_be_visible()

    def test_a_running_run_is_cancelled(self) -> None:
        night.fndctl("invoke", "slow", "--async")
        night.wait_for("a run", lambda: night.show("slow").get("running"))
        self.open("/")
        row = self.region("Running now").get_by_role("row").filter(has_text="slow")
        self.go("Cancel", row.first)
        night.wait_for("its end", lambda: not night.show("slow").get("running"))
        self.assertEqual(night.runs("slow")[0]["state"], "cancelled")


class MorningWithoutScript(Morning):
    """Without script: forms, redirects, and reloads."""

    function = "plain-morning"
    mail = "plain-post"
    look = {"java_script_enabled": False}
    has_script = False

    def test_the_token_can_be_typed(self) -> None:
        served = Served()
        self.addCleanup(served.end)
        context = served.context(**self.look)
        self.addCleanup(context.close)
        page = context.new_page()
        answer = page.goto(served.origin + "/history?state=failed")
        self.assertEqual(answer.status, 401)
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Sign in", exact=True).click()
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_label("Token").fill(served.token)
        page.get_by_role("button", name="Sign in", exact=True).click()
        expect(page.get_by_role("heading", name="History", level=1)).to_be_visible()
        self.assertIn("state=failed", page.url)
