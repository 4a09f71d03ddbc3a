"""The page fits screens and people: widths, zoom, colours, keyboard, WCAG 2.2 AA, and 40 kB for the first visit."""

import re

import night
from harness import PageTest, expect

FIRST_VISIT_MAX = 40_000


class Look(PageTest):
    @classmethod
    def setUpClass(cls) -> None:
        night.prepare()
        super().setUpClass()
        cls.addresses = night.addresses()

    def visit(self, path: str) -> None:
        self.page.goto(self.served.origin + path)
        expect(self.page.get_by_role("heading", level=1)).to_be_visible()

    def overflow(self) -> int:
        """Returns how many pixels the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    def too_wide(self) -> list[str]:
        """Returns the elements that end right of the window."""
        return self.page.evaluate(
            "[...document.querySelectorAll('body *')]"
            ".filter(e => !e.parentElement.closest('.scroll, pre') && e.getBoundingClientRect().right > document.documentElement.clientWidth)"
            ".map(e => e.outerHTML.slice(0, 120))"
        )

    def test_no_page_is_wider_than_its_window(self) -> None:
        # 640: a window of 1280 pixels at a zoom of 200 %.
        for width in [360, 640, 768, 1280]:
            self.page.set_viewport_size({"width": width, "height": 800})
            for path in self.addresses:
                with self.subTest(width=width, path=path):
                    self.visit(path)
                    self.assertLessEqual(self.overflow(), 0, self.too_wide())

    def background(self) -> int:
        """Returns how light the page is, from 0 to 765."""
        colour = self.page.evaluate(
            "getComputedStyle(document.body).backgroundColor + ' ' + getComputedStyle(document.documentElement).backgroundColor"
        )
        for numbers in re.findall(r"rgba?\(([^)]*)\)", colour):
            parts = [float(part) for part in numbers.split(",")]
            if len(parts) == 3 or parts[3] > 0:
                return int(sum(parts[:3]))
        return self.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches ? 0 : 765")

    def test_dark_and_light_are_the_choice_of_the_system(self) -> None:
        self.open("/")
        self.page.emulate_media(color_scheme="light")
        light = self.background()
        self.page.emulate_media(color_scheme="dark")
        self.assertGreater(light, 500)
        self.assertLess(self.background(), 250)

    def test_nothing_moves_for_those_who_asked_for_that(self) -> None:
        for path in self.addresses:
            with self.subTest(path=path):
                self.visit(path)
                self.assertEqual(self.page.evaluate("document.getAnimations().length"), 0)

    def test_the_keyboard_reaches_the_content_and_every_control(self) -> None:
        self.open("/functions/greet")
        self.page.keyboard.press("Tab")
        focused = self.page.locator(":focus")
        expect(focused).to_have_text("Skip to the content")
        self.page.keyboard.press("Enter")
        controls = self.page.locator("main").locator("a[href], button, input:not([type=hidden]), select, textarea").locator("visible=true")
        reached = set()
        for _ in range(controls.count() + 60):
            self.page.keyboard.press("Tab")
            shown = self.page.evaluate(
                """() => {
                    const at = document.activeElement, style = getComputedStyle(at), main = document.querySelector('main');
                    const all = [...main.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea')];
                    const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== 'none';
                    return { place: all.indexOf(at), seen, what: at.outerHTML.slice(0, 120) };
                }"""
            )
            if shown["place"] >= 0:
                reached.add(shown["place"])
                self.assertTrue(shown["seen"], f"the focus is not visible: {shown['what']}")
        self.assertEqual(len(reached), controls.count())

    def test_a_state_is_a_word_and_not_only_a_colour(self) -> None:
        self.page.emulate_media(forced_colors="active")
        self.open("/functions")
        expect(self.table("Functions").get_by_role("row").filter(has_text="broken")).to_contain_text("invalid")

    def test_the_first_visit_is_small(self) -> None:
        session = self.context.new_cdp_session(self.page)
        session.send("Network.enable")
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        sizes = []
        session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
        self.page.goto(self.served.origin + "/")
        expect(self.page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
        night.wait_for("document, style and script", lambda: self.page.wait_for_timeout(50) or len(sizes) >= 3)
        self.assertLessEqual(sum(sizes), FIRST_VISIT_MAX, sizes)
