"""axe-core finds nothing against WCAG 2.2, levels A and AA: on each page, in both colours, on a phone and on a large screen."""

import re

import night
from harness import PageTest, browser, expect, violations


class Axe(PageTest):
    @classmethod
    def setUpClass(cls) -> None:
        night.prepare()
        super().setUpClass()
        # A thousand lines more of the same elements say nothing new, and take axe-core most of the time.
        long = f"/runs/{night.newest('chatty')}"
        cls.addresses = [path for path in night.addresses() if path != long]

    def test_axe_finds_nothing(self) -> None:
        for scheme in ["light", "dark"]:
            self.page.emulate_media(color_scheme=scheme)
            for width in [360, 1280]:
                self.page.set_viewport_size({"width": width, "height": 800})
                for path in self.addresses:
                    with self.subTest(scheme=scheme, width=width, path=path):
                        self.page.goto(self.served.origin + path)
                        expect(self.page.get_by_role("heading", level=1)).to_be_visible()
                        self.assertEqual(violations(self.page), [])

    def test_axe_finds_nothing_in_a_form_with_mistakes(self) -> None:
        self.open("/functions/greet")
        form = self.page.get_by_role("form", name="Run", exact=True)
        # The browser would not send it.
        form.evaluate("form => { form.noValidate = true; }")
        form.get_by_label(re.compile("^Count")).evaluate("field => { field.type = 'text'; field.value = 'many'; }")
        self.go("Run", form)
        expect(self.page.get_by_role("alert")).to_contain_text("is not an integer")
        self.assertEqual(violations(self.page), [])

    def test_axe_finds_nothing_where_a_person_signs_in(self) -> None:
        context = browser().new_context()
        self.addCleanup(context.close)
        page = context.new_page()
        page.goto(self.served.origin + "/")
        expect(page.get_by_label("Token")).to_be_visible()
        self.assertEqual(violations(page), [])
