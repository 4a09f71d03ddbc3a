//! A manifest without code beside it, `NAME.toml` with `[source]`, is the function NAME.

use super::web::Server;
use super::{Repository, answers, error_with, says};
use fnd_tests::{Fnd, require};

fn git(repository: &Repository) -> String {
    format!(
        "description = \"a shop\"\n\n[source]\ngit = \"{}\"\n",
        repository.path()
    )
}

#[test]
fn a_manifest_alone_is_a_function_that_is_rolled_back_kept_and_removed_as_any_other() {
    require!(root, cgroup);
    let repository = Repository::new();
    repository.write("main.py", &says("one"));
    // Neither is used: the function has a manifest, and its name is no file of the repository.
    repository.write("function.toml", "enabled = false\n");
    repository.write("shop.toml", "not even TOML");
    repository.commit();
    let mut fnd = Fnd::start();
    fnd.drop_file("web/shop.toml", &git(&repository));
    answers(&fnd, "web/shop", "one");
    let show = fnd.ctl(&["show", "web/shop"]).expect_code(0).out();
    assert!(show.contains("web/shop.toml") && show.contains("a shop"), "{show}");
    let files = fnd.ctl(&["cat", "web/shop", "-o", "name"]).expect_code(0).out();
    assert_eq!(files.lines().count(), 1, "{files}");
    // The file that is no upload, and the command that deletes it.
    let refused = fnd.ctl(&["remove", "web/shop"]);
    assert_eq!(refused.to_string().matches("web/shop.toml").count(), 2, "{refused}");
    repository.write("main.py", &says("two"));
    repository.commit();
    let _ = fnd.ctl(&["build", "web/shop"]).expect_code(0);
    answers(&fnd, "web/shop", "two");
    let diff = fnd.ctl(&["diff", "web/shop"]).expect_code(0).out();
    assert!(diff.contains("+    return 'two'"), "{diff}");
    let _ = fnd.ctl(&["rollback", "web/shop"]).expect_code(0);
    answers(&fnd, "web/shop", "one");
    // After a restart, too, without the repository.
    fnd.stop();
    drop(repository);
    fnd.launch();
    answers(&fnd, "web/shop", "one");
    fnd.remove("web/shop.toml");
    fnd.wait_gone("web/shop");
    fnd.finish();
}

/// Each of these has functions of its own.
#[test]
fn manifests_without_code() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    a_manifest_alone_may_name_a_file_of_a_web_server(&fnd);
    beside_code_a_manifest_is_that_of_the_code_and_without_a_source_it_is_no_function(&fnd);
    fnd.finish();
}

fn a_manifest_alone_may_name_a_file_of_a_web_server(fnd: &Fnd) {
    let server = Server::start();
    let sum = server.serve("greeting.py", says("a greeting").as_bytes());
    let at = &server.at;
    fnd.drop_file(
        "hello.toml",
        &format!("[source]\nurl = \"{at}/greeting.py\"\nsha256 = \"{sum}\"\n"),
    );
    answers(fnd, "hello", "a greeting");
    // A mistake in it is named where it is, and the version before serves.
    fnd.drop_file("hello.toml", &format!("[source]\nurl = \"{at}/greeting.py\"\n"));
    let error = error_with(fnd, "hello", "sha256");
    assert!(error.contains("hello.toml:2:7"), "{error}");
    assert_eq!(fnd.invoke("hello", "").text(), "a greeting");
}

fn beside_code_a_manifest_is_that_of_the_code_and_without_a_source_it_is_no_function(fnd: &Fnd) {
    let repository = Repository::new();
    repository.write("main.py", &says("fetched"));
    repository.commit();
    fnd.drop_file("alone.toml", "on_load = false\n");
    let problem = fnd.wait_problem("alone.toml");
    assert!(problem.contains("this manifest has no code"), "{problem}");
    assert!(fnd.function("alone").is_none());
    // The code comes later.
    fnd.drop_file("alone.py", &says("beside"));
    answers(fnd, "alone", "beside");

    fnd.drop_file("shop.toml", &git(&repository));
    answers(fnd, "shop", "fetched");
    // With code beside it, it cannot name a source: the version before serves.
    fnd.drop_file("shop.py", &says("beside"));
    let _ = error_with(fnd, "shop", "only for a manifest without code beside it");
    assert_eq!(fnd.invoke("shop", "").text(), "fetched");
    fnd.drop_file("shop.toml", "on_load = false\n");
    answers(fnd, "shop", "beside");
    fnd.remove("shop.py");
    fnd.drop_file("shop.toml", &git(&repository));
    answers(fnd, "shop", "fetched");
    // Two forms for one name.
    fnd.drop_file("shop/function.toml", &git(&repository));
    let _ = error_with(fnd, "shop", "several files have the name");
}
