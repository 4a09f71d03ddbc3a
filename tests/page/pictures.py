"""Takes the pictures of docs/page.md, a morning with the page, for scripts/pictures.sh, which calls it with the directory of the pictures."""

import json
import sys

import night
from harness import FUNCTIONS, Served, expect, fndctl

# The private directory is the one of an installed fnd.
INSTALLED = """directory => document.querySelectorAll("code").forEach(code => {
    code.textContent = code.textContent.replace(directory, "/etc/fnd/functions");
})"""

DUMP = """# /// fnd
# description = "Dumps the database of the shop"
# [[schedule]]
# cron = "30 2 * * *"
# [[schedule]]
# cron = "0 12 * * MON-FRI"
# ///
host={host}
echo "connecting to $host:5432"
{code}
"""
GOOD = DUMP.format(host="db1.example.com", code='echo "4 tables, 812 rows"')
BAD = DUMP.format(host="db2.example.com", code='echo "no such host: $host" >&2\nexit 3')
DESCRIBED = '# description = "Sends the mail of an order"\n'
MAIL = night.script('read -r to\necho "no route to mx.example.org" >&2\nexit 1', DESCRIBED)
ORDERS = night.script('n=0\nwhile :; do\n    echo "batch $((n += 1))"\n    sleep 1\ndone', '# description = "Reads orders of the partner"\n')


def live() -> dict[str, str]:
    """Makes a night in which some work failed; returns the parts of the addresses."""
    for name, text in {"shop/dump.sh": GOOD, "shop/mail.sh": MAIL, "shop/orders.sh": ORDERS}.items():
        night.save(name, text)
    fndctl("reload")
    fndctl("invoke", "shop/dump")
    old = night.version("shop/dump")
    night.serve("shop/dump.sh", BAD)
    fndctl("invoke", "shop/dump", code=1)
    new = night.version("shop/dump")
    for name in ("ada", "grace"):
        fndctl("invoke", "shop/mail", "--async", "-d", f"{name}@example.org")
    fndctl("invoke", "shop/orders", "--async")
    night.wait_for("two dead letters", lambda: len(json.loads(fndctl("dead-letters", "-o", "json"))["dead_letters"]) >= 2)
    night.wait_for("a run", lambda: night.show("shop/orders").get("running"))
    bare = [str(version).removeprefix("sha256:") for version in (old, new)]
    return {"run": night.newest("shop/dump"), "old": bare[0], "new": bare[1]}


def wait_for_end(page) -> None:
    """Waits until the page of a run shows its end."""
    expect(page.get_by_role("button", name="Run again", exact=True)).to_be_visible()


def run_again(page) -> None:
    before = page.url
    page.get_by_role("button", name="Run again", exact=True).click()
    expect(page).not_to_have_url(before)
    wait_for_end(page)


def roll_back(page) -> None:
    releases = page.get_by_role("region", name="Releases", exact=True)
    releases.get_by_role("button", name="Roll back", exact=True).first.click()
    expect(page.get_by_role("button", name="Unpin", exact=True)).to_be_visible()
    releases.evaluate("region => region.scrollIntoView()")


def redrive(page) -> None:
    """Redrives the newest dead letter, that of the run again; the page that follows is that of the new run."""
    letters = page.get_by_role("table", name="Dead letters", exact=True)
    letters.get_by_role("button", name="Redrive", exact=True).first.click()
    wait_for_end(page)
    expect(page.get_by_role("region", name="Output", exact=True)).to_contain_text("812 rows")


# Name, address, colours, width and height of the window, and what the person does before the picture.
PICTURES = [
    ("page-light", "/", "light", 1100, 720, None),
    ("page-run", "/runs/{run}", "light", 1100, 720, None),
    ("page-phone", "/runs/{run}", "light", 390, 1000, None),
    ("page-dark", "/functions/shop%2Fdump", "dark", 1100, 890, None),
    ("page-schedules", "/schedules", "light", 1100, 480, None),
    ("page-again", "/runs/{run}", "light", 1100, 720, run_again),
    ("page-diff", "/functions/shop%2Fdump/diff?from={old}&to={new}", "light", 1100, 480, None),
    ("page-rollback", "/functions/shop%2Fdump", "light", 1100, 480, roll_back),
    ("page-dead-letters", "/dead-letters", "light", 1100, 440, None),
    ("page-redriven", "/dead-letters", "light", 1100, 720, redrive),
    ("page-dead-letters-after", "/dead-letters", "light", 1100, 360, None),
]


def main() -> None:
    directory = sys.argv[1]
    parts = live()
    served = Served()
    try:
        served.sign_in()
        for name, path, colours, width, height, action in PICTURES:
            context = served.context(viewport={"width": width, "height": height}, color_scheme=colours, locale="en-GB")
            page = context.new_page()
            page.goto(served.origin + path.format(**parts))
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            if action:
                action(page)
            page.evaluate(INSTALLED, str(FUNCTIONS))
            page.screenshot(path=f"{directory}/{name}.png")
            context.close()
    finally:
        served.end()
        fndctl("cancel", "--all", "shop/orders")


main()
