"""Installs the packages of functions: `python3 -I install.py fnd-build.json` (docs/dependencies.md).

fnd runs it as the function `fnd-build`, in a directory with the files that list the packages. It leaves a tree in
`$STATE_DIRECTORY/NAME` and tells by the file `.fnd-packages` that the tree is complete; NAME is that of the directory
above. Exit 75: the network is the reason, and another attempt may succeed. Exit 65: it is not.
"""

import contextlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

TRANSIENT, FAILED = 75, 65
# Messages of pip and uv about the network or the index.
NETWORK = re.compile(
    r"too many \d+ error responses|Retrying \(Retry|NewConnectionError|ConnectTimeout|Read ?Timeout|Connection (refused|reset|broken|aborted)"
    r"|name resolution|dns error|error sending request|operation timed out|HTTP error 5\d\d|HTTP status (server|5)"
    r"|\b50[0234] (Server Error|Internal|Bad Gateway|Service|Gateway)|RemoteDisconnected|IncompleteRead",
    re.IGNORECASE,
)
# Hashes in the file make pip demand one for each package.
PIP = ["-I", "-m", "pip", "install", "--no-compile", "--prefer-binary", "--no-warn-script-location", "--progress-bar", "off"]
UV = ["/opt/fnd/interpreters/uv/current/bin", "/usr/local/bin", "/usr/bin"]


def main():
    request = pathlib.Path(sys.argv[1]).resolve()
    code = request.parent
    wanted = json.loads(request.read_text())
    check_version(wanted["language"])
    state = pathlib.Path(os.environ["STATE_DIRECTORY"])
    # Each installation begins with nothing that an earlier one left, such as settings of pip.
    clear(state)
    tree, home, tmp = state / code.parent.name, state / "home", state / "tmp"
    site = tree / "site"
    for directory in (site, home, tmp):
        directory.mkdir(parents=True)
    listing = code / wanted["file"] if wanted["file"] else tmp / "requirements.txt"
    if not wanted["file"]:
        listing.write_text("".join(f"{item}\n" for item in wanted["list"]))
    environment(home, tmp, tree, listing)
    uv = os.environ.get("UV") or shutil.which("uv", path=os.pathsep.join(UV))
    if listing.name == "uv.lock":
        if uv is None:
            fail("`uv.lock` needs uv: `fndctl runtimes install uv`, or write a `requirements.txt`")
        listing = tmp / "requirements.txt"
        options = ["--frozen", "--no-dev", "--no-emit-project", "--format", "requirements-txt", "--quiet"]
        run([uv, "export", *options, "--project", str(code), "--output-file", str(listing)])
    if wanted.get("system_packages"):
        beside_system(site, tmp / "venv", listing)
    elif uv is not None:
        python = ["--python", sys.executable]
        hashes = ["--require-hashes"] if "--hash=" in listing.read_text() else []
        run([uv, "pip", "install", *python, *hashes, "--no-progress", "--target", str(site), "-r", str(listing)])
    elif importlib.util.find_spec("pip") is None:
        fail(f"`{sys.executable}` has no pip: `apt install python3-pip`, or `fndctl runtimes install uv`")
    else:
        run([sys.executable, *PIP, "--target", str(site), "-r", str(listing)])
    # Byte code that is not compared with the source's time, which changes when the tree is copied.
    compiling = [sys.executable, "-I", "-m", "compileall", "-q", "-q", "--invalidation-mode", "unchecked-hash"]
    subprocess.run([*compiling, str(site)], check=False)  # an error: a file is no valid Python, and is not imported
    packages = sorted(path.name[: -len(".dist-info")].replace("-", " ", 1) for path in site.glob("*.dist-info"))
    (tree / ".fnd-packages").write_text("".join(f"{package}\n" for package in packages))
    print(f"installed {len(packages)} packages" if len(packages) != 1 else f"installed {packages[0]}")


def beside_system(site, environment, listing):
    """Installs what the machine's Python does not have: pip does so in an environment that sees the machine's packages.

    uv does not count packages of the machine, and pip with `--target` does not either.
    """
    run([sys.executable, "-I", "-m", "venv", "--system-site-packages", "--without-pip", str(environment)])
    python = environment / "bin/python"
    if subprocess.run([python, "-I", "-c", "import pip"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        fail("`system_packages` needs the pip of the machine: `apt install python3-pip`")
    run([str(python), *PIP, "-r", str(listing)])
    [installed] = environment.glob("lib/python*/site-packages")
    site.rmdir()
    installed.rename(site)


def clear(state):
    for entry in state.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def environment(home, tmp, tree, listing):
    """Sets the variables for pip and uv; those of `[build] env` win."""
    cache = pathlib.Path(os.environ["CACHE_DIRECTORY"])
    os.environ.update(HOME=str(home), TMPDIR=str(tmp))
    for name, value in {
        "KUBELESS_INSTALL_VOLUME": str(tree),
        "KUBELESS_DEPS_FILE": str(listing),
        "KUBELESS_FUNC_NAME": os.environ.get("FND_FUNCTION", ""),
        "PIP_CACHE_DIR": str(cache / "pip"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_LOG": str(tmp / "pip.log"),
        "PIP_NO_INPUT": "1",
        "PIP_RETRIES": "2",
        "UV_CACHE_DIR": str(cache / "uv"),
        "UV_LINK_MODE": "copy",
        "UV_NO_CONFIG": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }.items():
        os.environ.setdefault(name, value)
    if "FND_OFFLINE" in os.environ:
        # pip has no way to install from its cache: it needs PIP_FIND_LINKS then.
        os.environ.update(UV_OFFLINE="1", PIP_NO_INDEX="1")
    # Secrets of `[build] secrets`: files that pip and uv read.
    for secret, name in {"pip.conf": "PIP_CONFIG_FILE", "netrc": "NETRC"}.items():
        path = pathlib.Path(os.environ["CREDENTIALS_DIRECTORY"], secret)
        if path.exists():
            os.environ[name] = str(path)


def run(command):
    """Runs a program; shows its output, and ends with the reason if it fails."""
    print("+", " ".join(command), flush=True)
    network = False
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as program:
        last, cause = "", ""
        for line in program.stdout:
            print(line, end="", flush=True)
            network = network or NETWORK.search(line) is not None
            if line.lower().startswith(("error", "  ×", "  ╰", "× ")) or not last:
                last, cause = line.strip(), ""
            # Of the causes that uv prints, the last one says what happened.
            if line.startswith("  cause: "):
                cause = line.strip()[len("cause") :]
    if program.returncode != 0:
        # pip tells only its log that an index does not answer.
        log = pathlib.Path(os.environ["PIP_LOG"])
        text = log.read_text(errors="replace") if log.exists() else ""
        if NETWORK.search(text) is not None:
            network = True
            last = next((line for line in re.findall(r"Could not fetch URL .*", text)), last)
        fail(f"{last}{cause}" or f"it ended with {program.returncode}", TRANSIENT if network else FAILED)


def check_version(specifier):
    """Ends if `requires-python` excludes this interpreter."""
    numbers = lambda text: [int(part) for part in re.findall(r"\d+", text)]
    own = list(sys.version_info[:3])
    for clause in filter(None, (part.strip() for part in (specifier or "").split(","))):
        found = re.fullmatch(r"(~=|===?|!=|<=|>=|<|>)\s*([\d.]+?)(\.\*)?", clause)
        if found is None:
            continue  # pip or uv judges what this does not know
        operator, wanted = found[1], numbers(found[2])
        short = own[: len(wanted)]
        whole = wanted + [0] * (3 - len(wanted))
        fits = {
            ">=": own >= whole,
            ">": own > whole,
            "<=": own <= whole,
            "<": own < whole,
            "==": short == wanted if found[3] else own == whole,
            "===": own == whole,
            "!=": short != wanted if found[3] else own != whole,
            "~=": own >= whole and own[: len(wanted) - 1] == wanted[:-1],
        }[operator]
        if not fits:
            version = ".".join(map(str, own))
            fail(f"it needs Python {specifier}, and `{sys.executable}` is {version}: choose one with `runtime = \"python3.N\"`")


def fail(why, code=FAILED):
    print(why, file=sys.stderr)
    sys.exit(code)


try:
    main()
except BaseException:
    # What a failed installation has left may fill the disk. The reason of the failure matters more than an error here.
    with contextlib.suppress(OSError):
        clear(pathlib.Path(os.environ["STATE_DIRECTORY"]))
    raise
