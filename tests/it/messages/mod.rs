//! The message of a failure is the line that says why, in every language, with the paths of the function's own files.
//!
//! Files:
//! - `handlers`: handlers, here are scripts

mod handlers;

use fnd_tests::{Fnd, require};
use std::fmt::Write as _;

/// A function that fails: its file, more of its manifest, its code, and the message of its run. In a message, `…` stands
/// for any text.
type Case<'a> = (&'a str, &'a str, &'a str, &'a str);

const SHORT: &str = "[limits]\ntimeout = \"1s\"\n";

/// Runs every function, and reports all messages that differ.
#[track_caller]
fn check(cases: &[Case<'_>]) {
    let fnd = Fnd::start();
    for (file, manifest, code, _) in cases {
        let name = file.split('.').next().unwrap();
        fnd.drop_file(&format!("{name}.toml"), &format!("on_load = false\n{manifest}"));
        let mode = if code.starts_with("#!") { 0o755 } else { 0o644 };
        fnd.drop_bytes(file, code.as_bytes(), mode);
    }
    let mut differ = String::new();
    for (file, _, _, expected) in cases {
        let name = file.split('.').next().unwrap();
        fnd.wait_ready(name);
        let (_, view) = fnd.run(name, "");
        if !is(&view.message, expected) {
            writeln!(differ, "{file}\n  expected {expected}\n  found    {}", view.message).unwrap();
        }
    }
    assert!(differ.is_empty(), "\n{differ}");
    fnd.finish();
}

fn is(message: &str, expected: &str) -> bool {
    match expected.split_once('…') {
        Some((begin, end)) => message.starts_with(begin) && message.ends_with(end),
        None => message == expected,
    }
}

#[test]
fn bash() {
    check(&[
        (
            "unset.sh",
            "",
            "set -u\necho \"$nope\"\n",
            "unset.sh: line 2: nope: unbound variable",
        ),
        ("own.sh", "", "echo 'disk is full' >&2\nexit 3\n", "disk is full"),
        (
            "details.sh",
            "",
            "echo 'disk is full' >&2\necho '  /dev/sda1' >&2\nexit 3\n",
            "disk is full",
        ),
        (
            "traced.sh",
            "",
            "set -x\nls /nope\nexit 3\n",
            "ls: cannot access '/nope': No such file or directory",
        ),
        ("silent.sh", "", "exit 3\n", "exit code 3"),
        (
            "syntax.sh",
            "",
            "if true; then\n  echo x\nfi fi\n",
            "syntax.sh: line 3: syntax error near unexpected token `fi'",
        ),
        (
            "program.sh",
            "",
            "no-such-program\n",
            "program.sh: line 1: no-such-program: command not found",
        ),
        (
            "include.sh",
            "",
            ". /nope.sh\n",
            "include.sh: line 1: /nope.sh: No such file or directory",
        ),
        (
            "denied.sh",
            "",
            "cat /etc/shadow\n",
            "cat: /etc/shadow: Permission denied",
        ),
        ("killed.sh", "", "kill -9 $$\n", "killed by SIGKILL"),
        (
            "late.sh",
            SHORT,
            "sleep 1000\n",
            "it did not end within 1s (limits.timeout)",
        ),
        (
            "calls.sh",
            "",
            "set -e\n/usr/bin/python3 -c 'raise ValueError(\"deep\\nsecond\")'\n",
            "ValueError: deep",
        ),
    ]);
}

#[test]
fn python() {
    check(&[
        ("raised.py", "", "raise ValueError('broken')\n", "ValueError: broken"),
        (
            "text.py",
            "",
            "raise 'text'\n",
            "TypeError: exceptions must derive from BaseException",
        ),
        (
            "cause.py",
            "",
            "try:\n    open('/nope')\nexcept OSError as error:\n    raise RuntimeError('outer\\nsecond line') from error\n",
            "RuntimeError: outer",
        ),
        (
            "custom.py",
            "",
            "class Gone(Exception): pass\nerror = Gone('no customer')\nerror.__notes__ = ['a note']\nraise error\n",
            "Gone: no customer",
        ),
        ("own.py", "", "import sys\nsys.exit('disk is full')\n", "disk is full"),
        (
            "syntax.py",
            "",
            "def f():\n    x = = 1\n",
            "SyntaxError: invalid syntax",
        ),
        (
            "module.py",
            "",
            "import nope\n",
            "ModuleNotFoundError: No module named 'nope'",
        ),
        (
            "file.py",
            "",
            "open(__file__ + '.data')\n",
            "FileNotFoundError: [Errno 2] No such file or directory: 'file.py.data'",
        ),
        (
            "denied.py",
            "",
            "open('/etc/shadow')\n",
            "PermissionError: [Errno 13] Permission denied: '/etc/shadow'",
        ),
        (
            "killed.py",
            "",
            "import os\nos.kill(os.getpid(), 9)\n",
            "killed by SIGKILL",
        ),
        (
            "late.py",
            SHORT,
            "import time\ntime.sleep(1000)\n",
            "it did not end within 1s (limits.timeout)",
        ),
    ]);
}

#[test]
fn node() {
    check(&[
        (
            "raised.cjs",
            "",
            "throw new Error('broken\\nsecond line');\n",
            "Error: broken",
        ),
        ("number.cjs", "", "throw 42;\n", "42"),
        ("value.cjs", "", "throw { a: 1 };\n", "{ a: 1 }"),
        (
            "cause.cjs",
            "",
            "throw new Error('outer', { cause: new TypeError('inner') });\n",
            "Error: outer",
        ),
        (
            "rejected.cjs",
            "",
            "Promise.reject(new RangeError('too large'));\n",
            "RangeError: too large",
        ),
        (
            "own.cjs",
            "",
            "console.error('disk is full'); process.exit(3);\n",
            "disk is full",
        ),
        ("syntax.cjs", "", "let = ;\n", "SyntaxError: Unexpected token ';'"),
        (
            "module.cjs",
            "",
            "require('nope');\n",
            "Error: Cannot find module 'nope'",
        ),
        (
            "file.cjs",
            "",
            "require('fs').readFileSync(__filename + '.data');\n",
            "Error: ENOENT: no such file or directory, open 'file.cjs.data'",
        ),
        (
            "denied.cjs",
            "",
            "require('fs').readFileSync('/etc/shadow');\n",
            "Error: EACCES: permission denied, open '/etc/shadow'",
        ),
        (
            "killed.cjs",
            "",
            "process.kill(process.pid, 9); setTimeout(() => {}, 1e6);\n",
            "killed by SIGKILL",
        ),
        (
            "heap.cjs",
            "interpreter_args = [\"--max-old-space-size=16\"]\n",
            "const all = []; for (;;) all.push(new Array(1000).fill({}));\n",
            "killed by SIGABRT: FATAL ERROR: …JavaScript heap out of memory",
        ),
        (
            "late.cjs",
            SHORT,
            "setTimeout(() => {}, 1e6);\n",
            "it did not end within 1s (limits.timeout)",
        ),
    ]);
}

#[test]
fn deno() {
    require!(deno);
    check(&[
        (
            "raised.ts",
            "",
            "throw new Error('broken\\nsecond line');\n",
            "error: Uncaught (in promise) Error: broken",
        ),
        ("number.ts", "", "throw 42;\n", "error: Uncaught (in promise) 42"),
        (
            "cause.ts",
            "",
            "throw new Error('outer', { cause: new TypeError('inner') });\n",
            "error: Uncaught (in promise) Error: outer",
        ),
        (
            "own.ts",
            "",
            "console.error('disk is full'); Deno.exit(3);\n",
            "disk is full",
        ),
        ("syntax.ts", "", "let = ;\n", "error: SyntaxError: Expression expected"),
        (
            "module.ts",
            "",
            "import x from './nope.ts';\nx();\n",
            "error: Module not found \"nope.ts\".",
        ),
        (
            "package.ts",
            "",
            "import x from 'nope';\nx();\n",
            "error: Import \"nope\" not a dependency",
        ),
        (
            "file.ts",
            "",
            "Deno.readTextFileSync(new URL('./nope.data', import.meta.url));\n",
            "error: Uncaught (in promise) NotFound: No such file or directory (os error 2): readfile 'nope.data'",
        ),
        (
            "read.ts",
            "",
            "await Deno.readTextFile('/etc/passwd');\n",
            "error: Uncaught (in promise) NotCapable: Requires read access to \"/etc/passwd\": put `permissions = [\"read=/etc/passwd\"]` into its manifest",
        ),
        (
            "net.ts",
            "",
            "await fetch('https://example.com/x');\n",
            "error: Uncaught (in promise) NotCapable: Requires net access to \"example.com:443\": put `permissions = [\"net=example.com\"]` into its manifest",
        ),
        (
            "env.ts",
            "",
            "Deno.env.get('NOPE');\n",
            "error: Uncaught (in promise) NotCapable: Requires env access to \"NOPE\": put `permissions = [\"env=NOPE\"]` into its manifest",
        ),
        (
            "run.ts",
            "",
            "new Deno.Command('ls').outputSync();\n",
            "error: Uncaught (in promise) NotCapable: Requires run access to \"ls\": put `permissions = [\"run=ls\"]` into its manifest",
        ),
        (
            "late.ts",
            SHORT,
            "setTimeout(() => {}, 1e6);\n",
            "it did not end within 1s (limits.timeout)",
        ),
    ]);
}

#[test]
fn ruby() {
    require!(ruby);
    check(&[
        (
            "raised.rb",
            "",
            "def f\n  raise \"broken\\nsecond line\"\nend\nf\n",
            "raised.rb:2:in `f': broken (RuntimeError)",
        ),
        (
            "name.rb",
            "",
            "nope\n",
            "name.rb:1:in `<main>': undefined local variable or method `nope' for main:Object (NameError)",
        ),
        (
            "cause.rb",
            "",
            "begin\n  File.open('/nope')\nrescue => e\n  raise ArgumentError, 'outer'\nend\n",
            "cause.rb:4:in `rescue in <main>': outer (ArgumentError)",
        ),
        ("own.rb", "", "abort 'disk is full'\n", "disk is full"),
        (
            "syntax.rb",
            "",
            "def f\n  x = = 1\nend\n",
            "syntax.rb:2: syntax error, unexpected '='",
        ),
        (
            "module.rb",
            "",
            "require 'nope'\n",
            "…cannot load such file -- nope (LoadError)",
        ),
        (
            "file.rb",
            "",
            "File.read(__FILE__ + '.data')\n",
            "file.rb:1:in `read': No such file or directory @ rb_sysopen - file.rb.data (Errno::ENOENT)",
        ),
        (
            "denied.rb",
            "",
            "File.read('/etc/shadow')\n",
            "denied.rb:1:in `read': Permission denied @ rb_sysopen - /etc/shadow (Errno::EACCES)",
        ),
        (
            "killed.rb",
            "",
            "Process.kill('KILL', $$)\nsleep\n",
            "killed by SIGKILL",
        ),
        (
            "late.rb",
            SHORT,
            "sleep 1000\n",
            "it did not end within 1s (limits.timeout)",
        ),
    ]);
}

#[test]
fn php() {
    require!(php);
    check(&[
        (
            "raised.php",
            "",
            "<?php\nthrow new Exception(\"broken\\nsecond line\");\n",
            "Fatal error: Uncaught Exception: broken",
        ),
        (
            "name.php",
            "",
            "<?php\nnope();\n",
            "Fatal error: Uncaught Error: Call to undefined function nope() in name.php:2",
        ),
        (
            "cause.php",
            "",
            "<?php\ntry { throw new Exception('inner'); } catch (Exception $e) { throw new Error('outer', 0, $e); }\n",
            "Next Error: outer in cause.php:2",
        ),
        (
            "syntax.php",
            "",
            "<?php\n$x = = 1;\n",
            "Parse error: syntax error, unexpected token \"=\" in syntax.php on line 2",
        ),
        (
            "module.php",
            "",
            "<?php\nrequire 'nope.php';\n",
            "Fatal error: Uncaught Error: Failed opening required 'nope.php' (…) in module.php:2",
        ),
        (
            "own.php",
            "",
            "<?php\nfwrite(STDERR, \"disk is full\\n\");\nexit(3);\n",
            "disk is full",
        ),
        (
            "late.php",
            SHORT,
            "<?php\nsleep(1000);\n",
            "it did not end within 1s (limits.timeout)",
        ),
    ]);
}

#[test]
fn perl() {
    check(&[
        ("raised.pl", "", "die 'broken';\n", "broken at raised.pl line 1."),
        (
            "module.pl",
            "",
            "use Nope;\n",
            "Can't locate Nope.pm in @INC … at module.pl line 1.",
        ),
        (
            "syntax.pl",
            "",
            "my $x = ;\n",
            "syntax error at syntax.pl line 1, near \"= ;\"",
        ),
        (
            "file.pl",
            "",
            "open my $file, '<', __FILE__ . '.data' or die __FILE__ . \".data: $!\\n\";\n",
            "file.pl.data: No such file or directory",
        ),
        (
            "own.pl",
            "",
            "print STDERR \"disk is full\\n\"; exit 3;\n",
            "disk is full",
        ),
        (
            "late.pl",
            SHORT,
            "sleep 1000;\n",
            "it did not end within 1s (limits.timeout)",
        ),
    ]);
}

#[test]
fn java() {
    require!(java);
    let main =
        |body: &str| format!("class A {{ public static void main(String[] a) throws Exception {{\n{body}\n}} }}\n");
    let raised = main("throw new RuntimeException(\"broken\\nsecond\", new Exception(\"inner\"));");
    let syntax = main("int x = ;");
    let several = main("int x = y;\nString z = 1;");
    let file = main("new java.io.FileReader(System.getenv(\"SCRIPT\") + \".data\");");
    let own = main("System.err.println(\"disk is full\"); System.exit(3);");
    let late = main("Thread.sleep(1000000);");
    check(&[
        (
            "raised.java",
            "",
            &raised,
            "Exception in thread \"main\" java.lang.RuntimeException: broken",
        ),
        (
            "syntax.java",
            "",
            &syntax,
            "syntax.java:2: error: illegal start of expression",
        ),
        (
            "several.java",
            "",
            &several,
            "several.java:2: error: cannot find symbol",
        ),
        (
            "module.java",
            "",
            "import nope.Nope;\nclass A { public static void main(String[] a) { } }\n",
            "module.java:1: error: package nope does not exist",
        ),
        (
            "file.java",
            "",
            &file,
            "Exception in thread \"main\" java.io.FileNotFoundException: file.java.data (No such file or directory)",
        ),
        ("own.java", "", &own, "disk is full"),
        ("late.java", SHORT, &late, "it did not end within 1s (limits.timeout)"),
    ]);
}

#[test]
fn lua() {
    require!(lua);
    check(&[
        (
            "raised.lua",
            "",
            "error('broken')\n",
            "/usr/bin/lua5.4: raised.lua:1: broken",
        ),
        (
            "nil.lua",
            "",
            "local x\nprint(x.y)\n",
            "/usr/bin/lua5.4: nil.lua:2: attempt to index a nil value (local 'x')",
        ),
        (
            "module.lua",
            "",
            "require 'nope'\n",
            "/usr/bin/lua5.4: module.lua:1: module 'nope' not found:",
        ),
        (
            "syntax.lua",
            "",
            "x = = 1\n",
            "/usr/bin/lua5.4: syntax.lua:1: unexpected symbol near '='",
        ),
        (
            "file.lua",
            "",
            "assert(io.open(arg[0] .. '.data'))\n",
            "…file.lua.data: No such file or directory",
        ),
        (
            "own.lua",
            "",
            "io.stderr:write('disk is full\\n') os.exit(3)\n",
            "disk is full",
        ),
        (
            "late.lua",
            SHORT,
            "while true do end\n",
            "it did not end within 1s (limits.timeout)",
        ),
    ]);
}

#[test]
fn programs() {
    check(&[
        ("die", "", "#!/usr/bin/perl\ndie 'broken';\n", "broken at die line 2."),
        (
            "use",
            "",
            "#!/usr/bin/perl\nuse Nope;\n",
            "Can't locate Nope.pm in @INC … at use line 2.",
        ),
        (
            "syntax",
            "",
            "#!/usr/bin/perl\nmy $x = ;\n",
            "syntax error at syntax line 2, near \"= ;\"",
        ),
        ("killed", "", "#!/usr/bin/perl\nkill 'KILL', $$;\n", "killed by SIGKILL"),
        (
            "own",
            "",
            "#!/usr/bin/awk -f\nBEGIN { print \"disk is full\" > \"/dev/stderr\"; exit 3 }\n",
            "disk is full",
        ),
    ]);
}
