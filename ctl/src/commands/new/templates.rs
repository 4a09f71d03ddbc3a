//! The files that `fndctl new` writes, from `ctl/templates`. `tests/it/new.rs` runs each of them.

/// A file of a new function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Template {
    pub(super) runtime: &'static str,
    pub(super) kind: TemplateKind,
    /// Suffix of the code's file, with its dot; empty for a program without one.
    pub(super) suffix: &'static str,
    pub(super) code: &'static str,
    pub(super) manifest: &'static str,
    /// Whether the code's file is executable.
    pub(super) executable: bool,
}

/// How a function is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TemplateKind {
    /// Loaded once, then called for each invocation.
    Handler,
    /// A process for each run.
    Script,
    /// A program that serves HTTP.
    Http,
    /// A program that is kept running.
    Service,
}

impl TemplateKind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Handler => "handler",
            Self::Script => "script",
            Self::Http => "http",
            Self::Service => "service",
        }
    }
}

macro_rules! template {
    ($runtime:literal, $kind:ident, $file:literal, $suffix:literal, $manifest:literal, $executable:literal) => {
        Template {
            runtime: $runtime,
            kind: TemplateKind::$kind,
            suffix: $suffix,
            code: include_str!(concat!("../../../templates/", $runtime, "/", $file)),
            manifest: include_str!(concat!("../../../templates/", $manifest)),
            executable: $executable,
        }
    };
}

/// All templates. The first one of a runtime is that for callers who name no kind.
pub(super) const TEMPLATES: &[Template] = &[
    template!("bash", Handler, "handler.sh", ".sh", "handler.toml", true),
    template!("bash", Script, "script.sh", ".sh", "script.toml", true),
    template!("bash", Service, "service.sh", ".sh", "service.toml", true),
    template!("python", Handler, "handler.py", ".py", "handler.toml", false),
    template!("python", Script, "script.py", ".py", "script.toml", false),
    template!("python", Http, "http.py", ".py", "http.toml", false),
    template!("python", Service, "service.py", ".py", "service.toml", false),
    template!("deno", Handler, "handler.ts", ".ts", "handler.toml", false),
    template!("deno", Script, "script.ts", ".ts", "script.toml", false),
    // deno serves an exported `fetch` without `[http_server]`, so the manifest is another one.
    template!("deno", Http, "http.ts", ".ts", "deno/http.toml", false),
    template!("deno", Service, "service.ts", ".ts", "service.toml", false),
    // fnd runs `.js` with deno, so the templates of Node are CommonJS files with a suffix of their own.
    template!("node", Handler, "handler.cjs", ".cjs", "handler.toml", false),
    template!("node", Script, "script.cjs", ".cjs", "script.toml", false),
    template!("node", Http, "http.cjs", ".cjs", "http.toml", false),
    template!("node", Service, "service.cjs", ".cjs", "service.toml", false),
    template!("ruby", Handler, "handler.rb", ".rb", "handler.toml", false),
    template!("ruby", Script, "script.rb", ".rb", "script.toml", false),
    template!("ruby", Http, "http.rb", ".rb", "http.toml", false),
    template!("ruby", Service, "service.rb", ".rb", "service.toml", false),
    template!("php", Handler, "handler.php", ".php", "handler.toml", false),
    template!("php", Script, "script.php", ".php", "script.toml", false),
    template!("php", Http, "http.php", ".php", "http.toml", false),
    template!("php", Service, "service.php", ".php", "service.toml", false),
    // Perl and Lua have no shim, so there are no handlers.
    template!("perl", Script, "script.pl", ".pl", "script.toml", false),
    template!("perl", Http, "http.pl", ".pl", "http.toml", false),
    template!("perl", Service, "service.pl", ".pl", "service.toml", false),
    template!("lua", Script, "script.lua", ".lua", "script.toml", false),
    template!("lua", Service, "service.lua", ".lua", "service.toml", false),
    // Four workers of Java do not fit into the default of `limits.memory`, so the manifest is another one.
    template!("java", Handler, "handler.java", ".java", "java/handler.toml", false),
    template!("java", Script, "script.java", ".java", "script.toml", false),
    template!("java", Http, "http.java", ".java", "http.toml", false),
    template!("java", Service, "service.java", ".java", "service.toml", false),
    template!("go", Handler, "handler.go", ".go", "handler.toml", false),
    template!("go", Script, "script.go", ".go", "script.toml", false),
    template!("go", Http, "http.go", ".go", "http.toml", false),
    template!("go", Service, "service.go", ".go", "service.toml", false),
    template!("exec", Script, "script", "", "script.toml", true),
    template!("exec", Service, "service", "", "service.toml", true),
];
