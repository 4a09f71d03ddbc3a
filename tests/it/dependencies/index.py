"""An index of Python packages, of gems, of npm, of JSR, of PHP packages and of Go modules for tests, and a web server with modules for deno:
`index.py DIRECTORY [gems]`.

It prints its port. Each request is a line of DIRECTORY/requests. DIRECTORY/mode says how it answers: `ok`, `500`, `hang`
(until the mode changes), `pair` (nothing is answered before two kinds of packages are asked for) or `damaged` (files
whose bytes are not those that were promised).
"""

import base64, hashlib, http.server, io, json, pathlib, subprocess, sys, tarfile, time, zipfile

directory = pathlib.Path(sys.argv[1])
HOSTILE = """
const fs = require("fs"), { spawn } = require("child_process");
for (const path of process.env.OUTSIDE.split(":")) {
  try { fs.writeFileSync(path + "/written", ""); } catch {}
}
fs.writeFileSync("made", "by the script");
spawn("/bin/sleep", [process.env.MARK], { detached: true, stdio: "ignore" }).unref();
"""


def wheel(name, version, source):
    info, out = f"{name}-{version}.dist-info", io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path, text in {
            f"{name}.py": source,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": "",
        }.items():
            archive.writestr(zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0)), text)
    return out.getvalue()


def tarball(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, text in files.items():
            info = tarfile.TarInfo(f"package/{path}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def tar(path, text):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo(path)
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def npm(name, **more):
    files = {"package.json": json.dumps({"name": name, "version": "1.0.0", **more})}
    files["index.js"] = "module.exports = (text) => String(text).padStart(8, '.');\n"
    return tarball({**files, "hostile.js": HOSTILE, "room.js": ROOM})


def integrity_of(content):
    return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()


def module(path, version, files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(f"{path}@{version}/{name}", (2026, 1, 1, 0, 0, 0)), text)
    return out.getvalue()


GO_MOD = "module example.com/fndpad\n\ngo 1.18\n"
GO_CODE = 'package fndpad\n\nimport "fmt"\n\nfunc Pad(text string) string { return fmt.Sprintf("%8s", text) }\n'
GO = {
    "list": b"v1.0.0\n",
    "v1.0.0.info": json.dumps({"Version": "v1.0.0", "Time": "2026-01-01T00:00:00Z"}).encode(),
    "v1.0.0.mod": GO_MOD.encode(),
    "v1.0.0.zip": module("example.com/fndpad", "v1.0.0", {"go.mod": GO_MOD, "pad.go": GO_CODE}),
}
WEB = {
    "mark.ts": b"import { sign } from './sign.ts';\nexport const mark = (text: string): string => text + sign;\n",
    "sign.ts": b"export const sign: string = '!';\n",
}
JSR = {"mod.ts": b"export const twice = (text: string): string => text + text;\n"}
JSR_META = {
    "meta.json": {"scope": "fnd", "name": "twice", "latest": "1.0.0", "versions": {"1.0.0": {}}},
    "1.0.0_meta.json": {
        "manifest": {f"/{path}": {"size": len(text), "checksum": f"sha256-{hashlib.sha256(text).hexdigest()}"} for path, text in JSR.items()},
        "exports": {".": "./mod.ts"},
    },
}
WHEELS = {"fndpad": wheel("fndpad", "1.0", "def pad(text):\n    return text.rjust(8, '.')\n")}
PHP = tar("pad.php", "<?php\nfunction fndpad($text) { return str_pad($text, 8, '.', STR_PAD_LEFT); }\n")
# A package that is as large as a variable says.
ROOM = 'require("fs").writeFileSync("big", require("crypto").randomBytes(Number(process.env.ROOM)));\n'
SCRIPTS = {"fndpad": {}, "fndhostile": {"postinstall": "node hostile.js"}, "fndroom": {"postinstall": "node room.js"}}
TARBALLS = {name: npm(name, scripts=scripts) for name, scripts in SCRIPTS.items()}


def gems():
    """Writes a gem and the index of gems below the directory."""
    source, root = directory / "gem", directory / "gem-index"
    (source / "lib").mkdir(parents=True)
    (root / "gems").mkdir(parents=True)
    (source / "lib/fndpad.rb").write_text("module Fndpad\n  def self.pad(text) = text.rjust(8, '.')\nend\n")
    (source / "fndpad.gemspec").write_text(
        "Gem::Specification.new do |s|\n  s.name, s.version, s.summary = 'fndpad', '1.0.0', 'pads'\n"
        "  s.authors, s.files, s.license, s.homepage = ['fnd'], ['lib/fndpad.rb'], 'MIT', 'http://localhost'\nend\n"
    )
    gem = ["/usr/bin/ruby", "/usr/bin/gem"]
    run = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([*gem, "build", "-o", str(root / "gems/fndpad-1.0.0.gem"), "fndpad.gemspec"], cwd=source, **run)
    subprocess.run([*gem, "generate_index", "-d", str(root)], **run)
    return root


KINDS = set()
GEMS = gems() if "gems" in sys.argv else None


class Index(http.server.BaseHTTPRequestHandler):
    def mode(self):
        return (directory / "mode").read_text().strip()

    def do_GET(self):
        with open(directory / "requests", "a") as log:
            log.write(self.path + "\n")
        while self.mode() == "hang":
            time.sleep(0.05)
        KINDS.add(self.path.split("/")[1])
        while self.mode() == "pair" and len(KINDS) < 2:
            time.sleep(0.05)
        if self.mode() == "500":
            return self.answer(500, "text/plain", b"broken")
        parts = self.path.strip("/").split("/")
        if parts[0] == "simple" and parts[1] in WHEELS:
            name = parts[1]
            digest = hashlib.sha256(WHEELS[name]).hexdigest()
            link = f'<a href="/wheels/{name}-1.0-py3-none-any.whl#sha256={digest}">{name}-1.0-py3-none-any.whl</a>'
            return self.answer(200, "text/html", f"<!DOCTYPE html><html><body>{link}</body></html>".encode())
        if parts[0] == "wheels":
            return self.file(WHEELS[parts[1].split("-")[0]])
        if parts[0] in TARBALLS:
            name, found = parts[0], TARBALLS[parts[0]]
            if len(parts) > 1:
                return self.file(found)
            integrity = integrity_of(found)
            url = f"http://{self.headers['host']}/{name}/-/{name}-1.0.0.tgz"
            scripts = SCRIPTS[name]
            dist = {"tarball": url, "integrity": integrity}
            one = {"name": name, "version": "1.0.0", "dist": dist, "scripts": scripts, "hasInstallScript": bool(scripts)}
            whole = {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": one}}
            return self.answer(200, "application/json", json.dumps(whole).encode())
        if parts[0] == "php":
            if parts[1] == "pad.tar":
                return self.file(PHP)
            url = f"http://{self.headers['host']}/php/pad.tar"
            dist = {"type": "tar", "url": url, "shasum": hashlib.sha1(PHP).hexdigest()}
            one = {"name": "fnd/pad", "version": "1.0.0", "dist": dist, "autoload": {"files": ["pad.php"]}}
            return self.answer(200, "application/json", json.dumps({"packages": {"fnd/pad": {"1.0.0": one}}}).encode())
        if parts[0] == "web" and parts[1] in WEB:
            return self.answer(200, "application/typescript", WEB[parts[1]])
        if parts[:3] == ["jsr", "@fnd", "twice"] and parts[3] in JSR_META:
            return self.answer(200, "application/json", json.dumps(JSR_META[parts[3]]).encode())
        if parts[:4] == ["jsr", "@fnd", "twice", "1.0.0"] and parts[4] in JSR:
            return self.answer(200, "application/typescript", JSR[parts[4]])
        if parts[:3] == ["go", "example.com", "fndpad"] and parts[-1] in GO:
            return self.file(GO[parts[-1]])
        gem = GEMS and parts[0] == "gem" and GEMS.joinpath(*parts[1:])
        if gem and gem.is_file():
            return self.answer(200, "application/octet-stream", gem.read_bytes())
        return self.answer(404, "application/json", b"{}")

    do_HEAD = do_GET

    def file(self, content):
        damaged = content[:-1] + bytes([content[-1] ^ 1]) if self.mode() == "damaged" else content
        self.answer(200, "application/octet-stream", damaged)

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
server.daemon_threads = True
digests = [hashlib.sha256(WHEELS["fndpad"]).hexdigest(), integrity_of(TARBALLS["fndpad"]), hashlib.sha1(PHP).hexdigest()]
print(server.server_address[1], *digests, sep="\n", flush=True)
server.serve_forever()
