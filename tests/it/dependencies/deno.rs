//! Functions in Deno: what they import is installed before they serve.

use super::*;

/// Returns a handler that imports a package of npm, one of JSR and a file of the web. It has no network.
fn handler(index: &Index) -> String {
    let at = format!("http://127.0.0.1:{}", index.port);
    format!(
        "// /// fnd\n// [sandbox]\n// network = \"none\"\n// [env]\n// JSR_URL = \"{at}/jsr/\"\n// ///\n\
         import pad from \"npm:fndpad@1\";\nimport {{ mark }} from \"{at}/web/mark.ts\";\nimport {{ twice }} from \"jsr:@fnd/twice@1\";\n\
         export default (event: {{ data: string }}): string => twice(\"one \") + mark(pad(event.data));\n"
    )
}

#[test]
fn imports_are_installed_once_and_need_no_network_then() {
    require!(root, cgroup, deno);
    let index = Index::start();
    let fnd = Fnd::start_with(&index.setup("", ""));
    let code = handler(&index);
    fnd.drop_file("pads.ts", &code);
    answers(&fnd, "pads", "one one .....Ada!");
    let shown = fnd.ctl(&["show", "pads"]).expect_code(0).out();
    assert!(shown.contains("@fnd/twice 1.0.0, fndpad 1.0.0"), "{shown}");
    // An edit of code alone asks nobody.
    index.mode("500");
    fnd.drop_file("pads.ts", &code.replace("one ", "two "));
    answers(&fnd, "pads", "two two .....Ada!");
    assert_eq!((builds(&fnd), trees(&fnd).len()), (1, 1));
    // A module that serves HTTP, which needs the network for that, with the same imports in another order: the same tree.
    let code = code.replace("\"none\"", "\"host\"");
    let (block, imports) = code.split_once("// ///\nimport").unwrap();
    let mut imports: Vec<_> = imports
        .lines()
        .take(3)
        .map(|line| line.trim_start_matches("import"))
        .collect();
    imports.reverse();
    let fetch =
        "export default { fetch: async (request: Request) => new Response(mark(pad(await request.json()))) };\n";
    fnd.drop_file(
        "web.ts",
        &format!("{block}// ///\nimport{}\n{fetch}", imports.join("\nimport")),
    );
    answers(&fnd, "web", ".....Ada!");
    assert_eq!((builds(&fnd), trees(&fnd).len()), (1, 1));
    // A script with other permissions than a handler.
    fnd.drop_file(
        "script.ts",
        "// /// fnd\n// on_load = false\n// dependencies = [\"npm:fndpad@^1\"]\n// ///\n\
         const { default: pad } = await import(\"npm:\" + \"fndpad@^1\");\nconsole.log(pad(\"script\"));\n",
    );
    index.mode("ok");
    wait_until("the script", PATIENCE, || {
        fnd.invoke("script", "").text().contains("..script").then_some(())
    });
    fnd.finish();
}

#[test]
fn a_package_that_is_not_there_is_refused_and_the_version_before_serves() {
    require!(root, cgroup, deno);
    let index = Index::start();
    let fnd = Fnd::start_with(&index.setup("", ""));
    let code = "import pad from \"npm:fndpad\";\nexport default (event: any) => \"one \" + pad(event.data);\n";
    fnd.drop_file("pads.ts", code);
    answers(&fnd, "pads", "one .....Ada");
    fnd.drop_file("pads.ts", &code.replace("npm:fndpad", "npm:fndnone"));
    let error = error_with(&fnd, "pads", "the installation of its dependencies failed");
    assert!(error.contains("npm package 'fndnone' does not exist"), "{error}");
    assert_eq!(fnd.invoke("pads", "\"Ada\"").text(), "one .....Ada");
    index.mode("damaged");
    fnd.drop_file("pads.ts", &code.replace("npm:fndpad", "npm:fndpad@1.0.0"));
    let error = error_with(&fnd, "pads", "checksum did not match");
    assert!(error.contains("fndpad@1.0.0"), "{error}");
    assert_eq!(
        (fnd.invoke("pads", "\"Ada\"").text(), trees(&fnd).len()),
        ("one .....Ada".to_owned(), 1)
    );
    fnd.finish();
}

#[test]
fn a_directory_has_names_for_its_imports_and_a_lock() {
    require!(root, cgroup, deno);
    let index = Index::start();
    let fnd = Fnd::start_with(&index.setup("", ""));
    let at = format!("http://127.0.0.1:{}", index.port);
    let config = format!(
        "{{ // ours\n\"imports\": {{ \"pad\": \"npm:fndpad@1\", \"web/\": \"{at}/web/\", \"own/\": \"./own/\" }} }}"
    );
    fnd.drop_file(
        "title/own/slug.ts",
        "export const slug = (text: string) => text.toLowerCase();\n",
    );
    fnd.drop_file("title/deno.jsonc", &config);
    fnd.drop_file(
        "title/main.ts",
        "import pad from \"pad\";\nimport { mark } from \"web/mark.ts\";\nimport { slug } from \"own/slug.ts\";\n\
         export function handler(event: { data: string }) {\n  return pad(mark(slug(event.data)));\n}\n",
    );
    fnd.drop_file("title/function.toml", "");
    answers(&fnd, "title", "....ada!");
    let [tree] = trees(&fnd).try_into().unwrap();
    let lock = fs::read_to_string(tree.join("deno.lock")).unwrap();
    fnd.drop_file("title/deno.lock", &lock);
    wait_until("a second installation", PATIENCE, || (builds(&fnd) == 2).then_some(()));
    answers(&fnd, "title", "....ada!");
    let serving = fnd.wait_function("title", "the version with a lock", |title| title.version.is_some());
    fnd.drop_file("title/deno.jsonc", &config.replace("fndpad@1", "fndpad@1.0.0"));
    let error = error_with(&fnd, "title", "lockfile is out of date");
    assert!(error.contains("installation of its dependencies failed"), "{error}");
    assert_eq!(fnd.function("title").unwrap().version, serving.version);
    assert_eq!(fnd.invoke("title", "\"Ada\"").text(), "....ada!");
    fnd.finish();
}
