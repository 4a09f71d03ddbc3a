"""Takes the pictures of docs/page.md, the walk of a morning, for scripts/pictures.sh, which calls it with the directory of the pictures."""

import json
import sys

import night
from harness import FUNCTIONS, Served, expect, fndctl

# Name, address, colours, width and height of the window.
PICTURES = [
    ("page-light", "/", "light", 1100, 720),
    ("page-run", "/runs/{run}", "light", 1100, 720),
    ("page-diff", "/functions/shop%2Fdump/diff?from={old}&to={new}", "light", 1100, 480),
    ("page-dark", "/functions/shop%2Fdump", "dark", 1100, 890),
    ("page-dead-letters", "/dead-letters", "light", 1100, 400),
    ("page-schedules", "/schedules", "light", 1100, 480),
    ("page-phone", "/runs/{run}", "light", 390, 1000),
]

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
MAIL = night.script('read -r to\necho "no such mailbox: $to" >&2\nexit 1', '# description = "Sends the mail of an order"\n')
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


def main() -> None:
    directory = sys.argv[1]
    parts = live()
    served = Served()
    try:
        served.sign_in()
        for name, path, colours, width, height in PICTURES:
            context = served.context(viewport={"width": width, "height": height}, color_scheme=colours, locale="en-GB")
            page = context.new_page()
            page.goto(served.origin + path.format(**parts))
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            page.evaluate(INSTALLED, str(FUNCTIONS))
            page.screenshot(path=f"{directory}/{name}.png")
            context.close()
    finally:
        served.end()
        fndctl("cancel", "--all", "shop/orders")


main()
