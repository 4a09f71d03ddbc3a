//! Handlers: the exception's text, or why the code cannot be loaded.

use super::check;
use fnd_tests::require;

const HANDLER: &str = "mode = \"handler\"\n";

#[test]
fn in_three_languages() {
    check(&[
        (
            "raised.py",
            HANDLER,
            "def handler(event, context): raise ValueError('broken')\n",
            "broken",
        ),
        (
            "key.py",
            HANDLER,
            "def handler(event, context): return {}['nope']\n",
            "KeyError: 'nope'",
        ),
        (
            "syntax.py",
            HANDLER,
            "x = = 1\ndef handler(event, context): pass\n",
            "invalid syntax (syntax.py, line 1)",
        ),
        (
            "module.py",
            HANDLER,
            "import nope\ndef handler(event, context): pass\n",
            "No module named 'nope'",
        ),
        (
            "file.py",
            HANDLER,
            "def handler(event, context): open(__file__ + '.data')\n",
            "[Errno 2] No such file or directory: 'file.py.data'",
        ),
        (
            "exits.py",
            HANDLER,
            "import os, sys\ndef handler(event, context):\n    print('disk is full', file=sys.stderr)\n    os._exit(3)\n",
            "disk is full",
        ),
        (
            "thrown.cjs",
            HANDLER,
            "module.exports = () => { throw new Error('broken'); };\n",
            "broken",
        ),
        (
            "value.cjs",
            HANDLER,
            "module.exports = () => { throw { a: 1 }; };\n",
            "{\"a\":1}",
        ),
        (
            "syntaxjs.cjs",
            HANDLER,
            "let = ;\nmodule.exports = () => 1;\n",
            "Unexpected token ';' (syntaxjs.cjs:1)",
        ),
        (
            "modulejs.cjs",
            HANDLER,
            "require('nope');\nmodule.exports = () => 1;\n",
            "Cannot find module 'nope'; list it in `dependencies` of the manifest or of `package.json`",
        ),
        (
            "exitsjs.cjs",
            HANDLER,
            "module.exports = () => { console.error('disk is full'); process.exit(3); };\n",
            "disk is full",
        ),
        (
            "syntaxsh.sh",
            HANDLER,
            "if true; then\n  echo x\nfi fi\nhandler() { :; }\n",
            "syntaxsh.sh: line 3: syntax error near unexpected token `fi'",
        ),
        (
            "ownsh.sh",
            HANDLER,
            "handler() { echo 'disk is full' >&2; return 3; }\n",
            "disk is full",
        ),
        (
            "finalsh.sh",
            HANDLER,
            "handler() { echo 'no such customer' >&2; return 65; }\n",
            "no such customer",
        ),
        (
            "programsh.sh",
            HANDLER,
            "handler() { no-such-program; }\n",
            "…no-such-program: command not found",
        ),
        ("silent.sh", HANDLER, "handler() { return 3; }\n", "exit 3"),
        (
            "killedsh.sh",
            HANDLER,
            "handler() { kill -9 $$; sleep 1000; }\n",
            "killed by SIGKILL",
        ),
    ]);
}

#[test]
fn php() {
    require!(php);
    check(&[
        (
            "raised.php",
            HANDLER,
            "<?php\nfunction handler($event, $context) { throw new Exception('broken'); }\n",
            "broken",
        ),
        (
            "syntax.php",
            HANDLER,
            "<?php\nfunction handler($event, $context) { $x = = 1; }\n",
            "syntax error, unexpected token \"=\" (syntax.php:2)",
        ),
        (
            "module.php",
            HANDLER,
            "<?php\nrequire 'nope.php';\nfunction handler($event, $context) {}\n",
            "Failed opening required 'nope.php' (…)",
        ),
        (
            "exits.php",
            HANDLER,
            "<?php\nfunction handler($event, $context) { fwrite(STDERR, \"disk is full\\n\"); exit(3); }\n",
            "disk is full",
        ),
    ]);
}

#[test]
fn java() {
    require!(java);
    let class = |body: &str| {
        let imports = "import io.kubeless.Context;\nimport io.kubeless.Event;\n";
        format!(
            "{imports}class A {{\n  Object handler(Event event, Context context) throws Exception {{\n    {body}\n  }}\n}}\n"
        )
    };
    let raised = class("throw new RuntimeException(\"broken\");");
    let silent = class("throw new IllegalStateException();");
    let number = class("return Integer.parseInt(event.Data);");
    let file = class("return java.nio.file.Files.readString(java.nio.file.Path.of(\"/nope\"));");
    let syntax = class("return 1 +;");
    let symbol = class("return contxt;");
    let module = class("return new nope.Thing();");
    let start = class("return 1;").replace("class A {", "class A {\n  static int x = Integer.parseInt(\"one\");");
    let exits = class("System.err.println(\"disk is full\");\n    System.exit(3);\n    return null;");
    check(&[
        ("raised.java", HANDLER, &raised, "broken"),
        ("silent.java", HANDLER, &silent, "java.lang.IllegalStateException"),
        ("number.java", HANDLER, &number, "For input string: \"\""),
        ("file.java", HANDLER, &file, "NoSuchFileException: /nope"),
        (
            "syntax.java",
            HANDLER,
            &syntax,
            "syntax.java:5:15: illegal start of expression",
        ),
        (
            "symbol.java",
            HANDLER,
            &symbol,
            "symbol.java:5:12: cannot find symbol; symbol: variable contxt; location: class A",
        ),
        (
            "module.java",
            HANDLER,
            &module,
            "module.java:5:20: package nope does not exist",
        ),
        ("start.java", HANDLER, &start, "For input string: \"one\""),
        ("exits.java", HANDLER, &exits, "disk is full"),
    ]);
}

#[test]
fn ruby() {
    require!(ruby);
    check(&[
        (
            "raised.rb",
            HANDLER,
            "def handler(event, context) = raise('broken')\n",
            "broken",
        ),
        (
            "name.rb",
            HANDLER,
            "def handler(event, context) = contxt\n",
            "undefined local variable or method `contxt' for main:Object",
        ),
        (
            "syntax.rb",
            HANDLER,
            "x = = 1\ndef handler(event, context) = 1\n",
            "syntax.rb:1: syntax error, unexpected '='",
        ),
        (
            "module.rb",
            HANDLER,
            "require 'nope'\ndef handler(event, context) = 1\n",
            "cannot load such file -- nope",
        ),
        (
            "file.rb",
            HANDLER,
            "def handler(event, context) = File.read(__FILE__ + '.data')\n",
            "No such file or directory @ rb_sysopen - file.rb.data",
        ),
        (
            "own.rb",
            HANDLER,
            "def handler(event, context) = abort('disk is full')\n",
            "disk is full",
        ),
        (
            "exits.rb",
            HANDLER,
            "def handler(event, context)\n  warn 'disk is full'\n  exit!(3)\nend\n",
            "disk is full",
        ),
    ]);
}

#[test]
fn deno() {
    require!(deno);
    check(&[
        (
            "raised.ts",
            HANDLER,
            "export default () => { throw new Error('broken'); };\n",
            "broken",
        ),
        (
            "syntax.ts",
            HANDLER,
            "let = ;\nexport default () => 1;\n",
            "SyntaxError: Expression expected (syntax.ts:1:7)",
        ),
        (
            "module.ts",
            HANDLER,
            "import x from './nope.ts';\nexport default () => x();\n",
            "Module not found \"nope.ts\". (module.ts:1:15)",
        ),
        (
            "read.ts",
            HANDLER,
            "export default () => Deno.readTextFile('/etc/passwd');\n",
            "Requires read access to \"/etc/passwd\": put `permissions = [\"read=/etc/passwd\"]` into its manifest",
        ),
    ]);
}
