"""The functions of the tests, and a night in which some of them failed."""

import functools
import json

from harness import FUNCTIONS, Control, fndctl, wait_for

SCRIPT = "# /// fnd\n# on_load = false\n{more}# ///\n{code}\n"


def script(code: str, more: str = "") -> str:
    return SCRIPT.format(code=code, more=more)


NIGHTLY = '# labels = { team = "shop" }\n# [[schedule]]\n# cron = "0 3 * * *"\n'
GOOD = script('echo "dumped shop"', NIGHTLY)
BAD = script('echo "connecting to db1"\necho "no such host: db1" >&2\nexit 3', NIGHTLY)

GREET = '''# /// fnd
# description = "Greets a person"
# [input.schema]
# type = "object"
# required = ["name"]
# [input.schema.properties]
# name = { type = "string", title = "Name", description = "Who is greeted" }
# count = { type = "integer", title = "Count", default = 1 }
# loud = { type = "boolean", title = "Loud" }
# colour = { enum = ["red", "green"], title = "Colour" }
# ///
def handler(event, context):
    return event["data"]
'''

# What a function can say to harm its reader: markup, a forged line, orders to a terminal, a link, a direction of writing, a
# line that overwrites itself, bytes that are no text.
ATTACKS = [
    b"<script>window.attacked = 'script'</script>",
    b"<img src=x onerror=\"window.attacked = 'image'\">",
    b"</span></div><div class=\"line stdout\"><span class=\"said\">forged</span></div>",
    b"<svg onload=\"window.attacked = 'svg'\">",
    b"\x1b]8;;javascript:window.attacked='link'\x07press me\x1b]8;;\x07",
    b"\x1b[31mred\x1b[0m \x1b[38;5;\"><script>window.attacked='colour'</script>m",
    b"\x1b[2J\x1b[1;1Hcleared",
    b"abc \xe2\x80\xae dlrow",
    b"10%\rDONE",
    b"\xff\xfe\x00 bytes",
    b"&lt;b&gt; stays &amp;lt;",
    b"x" * 20_000,
]
HOSTILE = (
    "# /// fnd\n"
    "# on_load = false\n"
    "# description = \"<script>window.attacked = 'description'</script>\"\n"
    "# labels = { team = \"<img src=x onerror=window.attacked='label'>\" }\n"
    "# ///\n"
    "import sys\n"
    f"for line in {ATTACKS!r}:\n"
    "    sys.stdout.buffer.write(line + b'\\n')\n"
    "sys.stdout.buffer.flush()\n"
    "sys.stderr.write(\"<script>window.attacked = 'message'</script>\\n\")\n"
    "sys.exit(4)\n"
)

HOSTILE_FORM = """# /// fnd
# [input.schema]
# type = "object"
# [input.schema.properties]
# x = { type = "string", title = "<script>window.attacked = 'title'</script>", description = "\\"><script>window.attacked = 'field'</script>" }
# ///
def handler(event, context):
    return event["data"]
"""

FILES = {
    "nightly.sh": GOOD,
    "mail.sh": script('read -r to\necho "no such mailbox: $to" >&2\nexit 1'),
    "greet.py": GREET,
    "slow.sh": script("n=0\nwhile :; do\n    echo \"tick $((n += 1))\"\n    sleep 0.2\ndone", "# [limits]\n# timeout = \"1h\"\n"),
    "hostile.py": HOSTILE,
    "hostile-form.py": HOSTILE_FORM,
    "quick.py": "def handler(event, context):\n    return 1\n",
    "chatty.sh": script("seq -f 'line %g' 1 2500"),
    "web/hello.sh": script("echo hello", '# [[http]]\n# path = "/hello"\n# auth = "none"\n'),
    "broken.sh": script("echo never"),
    "broken.toml": "[limits]\ntimout = \"1s\"\n",
}


def save(name: str, text: str) -> None:
    """Saves a file as a careful editor does."""
    path = FUNCTIONS / name
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text)
    temporary.chmod(0o644)
    temporary.rename(path)


def show(name: str) -> dict:
    return Control().ask("GET", f"/v1/functions/{name.replace('/', '%2F')}")


def version(name: str) -> str | None:
    return show(name).get("version")


def serve(name: str, text: str) -> None:
    """Saves new code of a function, and waits until it serves."""
    before = version(name.rsplit(".", 1)[0])
    save(name, text)
    fndctl("reload", "--ignore-invalid")
    wait_for(f"{name} to serve", lambda: version(name.rsplit(".", 1)[0]) != before)


def runs(function: str) -> list[dict]:
    return json.loads(fndctl("history", function, "-o", "json"))["invocations"]


@functools.cache
def prepare() -> None:
    """Makes the functions and the night, once."""
    for name, text in FILES.items():
        save(name, text)
    fndctl("reload", "--ignore-invalid")
    for name in FILES:
        function = name.rsplit(".", 1)[0]
        state = "invalid" if function == "broken" else "ready"
        wait_for(f"{function} to be {state}", lambda: show(function).get("state") == state)
    fndctl("invoke", "nightly")
    serve("nightly.sh", BAD)
    fndctl("invoke", "nightly", code=1)
    fndctl("invoke", "hostile", "-d", json.dumps({"x": "</pre><script>window.attacked = 'payload'</script>"}), code=1)
    fndctl("invoke", "chatty")
    for number in range(2):
        fndctl("invoke", "mail", "--async", "-d", f"ada{number}@example.org")
    control = Control()
    for _ in range(60):
        control.ask("POST", "/v1/functions/quick/invoke", b"{}", {"content-type": "application/json"})
    wait_for("two dead letters", lambda: len(json.loads(fndctl("dead-letters", "-o", "json"))["dead_letters"]) >= 2)


def newest(function: str) -> str:
    """Returns the id of the newest run of a function."""
    return runs(function)[0]["id"]


def addresses() -> list[str]:
    """Returns an address of each kind of page, with those of failures."""
    letter = Control().ask("GET", "/v1/dead-letters")["dead_letters"][0]["id"]
    releases = Control().ask("GET", "/v1/functions/nightly/versions")["versions"]
    new, old = (release["version"].removeprefix("sha256:") for release in (releases[0], releases[-1]))
    return [
        "/",
        "/functions",
        "/functions?q=nothing-has-this",
        "/functions/nightly",
        "/functions/greet",
        "/functions/hostile",
        "/functions/hostile-form",
        "/functions/broken",
        f"/functions/nightly/diff?from={old}&to={new}",
        f"/runs/{newest('nightly')}",
        f"/runs/{newest('hostile')}",
        f"/runs/{newest('chatty')}",
        "/history",
        "/dead-letters",
        f"/dead-letters/{letter}/drop",
        "/schedules",
        "/node",
        "/functions/nobody",
        "/history?state=broken",
    ]
