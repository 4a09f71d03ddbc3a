"""What the caller may not do is not offered, and fnd refuses it: the page has no checks of its own.

FND_PAGE_VIEWER is a copy of fndctl that the user `nobody` can start. This user may see `greet` and operate `web/*`.
"""

import os
import unittest

import night
from harness import PageTest, Served, expect

VIEWER = os.environ.get("FND_PAGE_VIEWER")
AS_NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--")


@unittest.skipUnless(VIEWER, "FND_PAGE_VIEWER is not set")
class Viewer(PageTest):
    @classmethod
    def setUpClass(cls) -> None:
        night.prepare()
        cls.served = Served(before=AS_NOBODY, program=VIEWER)
        cls.addClassCleanup(cls.served.end)
        cls.served.sign_in()

    def test_only_what_the_caller_may_see_and_do_is_there(self) -> None:
        self.open("/functions")
        expect(self.table("Functions").get_by_role("link", name="greet", exact=True)).to_be_visible()
        expect(self.table("Functions").get_by_role("link", name="nightly", exact=True)).to_have_count(0)
        self.open("/functions/greet")
        expect(self.page.get_by_role("button", name="Run", exact=True)).to_have_count(0)
        self.open("/functions/web%2Fhello")
        expect(self.page.get_by_role("button", name="Run", exact=True)).to_be_visible()
        self.open("/functions/nightly", status=404)
        self.open("/node")
        expect(self.page.get_by_role("heading", name="Audit", exact=True)).to_have_count(0)

    def test_a_refusal_of_fnd_is_shown_as_such(self) -> None:
        before = len(night.runs("greet"))
        answer = self.post("/functions/greet/run", {"in.name": "Ada"})
        self.assertEqual(answer.status, 403)
        self.assertIn("role", answer.text())
        self.assertEqual(len(night.runs("greet")), before)
