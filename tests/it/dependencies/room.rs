//! A disk that is full: an installation fails with that reason, and leaves nothing in the way of the next one.

use super::*;
use fnd_tests::mount::Mount;

const BEFORE: &str = "module.exports.handler = () => 'before';\n";
const CODE: &str = "const pad = require('fndpad');\nrequire.resolve('fndroom/big');\n\
                    module.exports.handler = (event) => 'one ' + pad(event.data);\n";
const PACKAGE: &str =
    r#"{"dependencies": {"fndpad": "^1.0.0", "fndroom": "1.0.0"}, "allowScripts": {"fndroom": true}}"#;

/// Has packages with so many bytes installed where there is no room for them, then where there is.
fn no_room(bytes: u32, disk: &str) {
    let index = Index::start();
    let mut fnd = Fnd::prepare(&index.setup("", &format!("ROOM = \"{bytes}\"")));
    let mount = Mount::over(&fnd.path("state"), disk);
    fnd.launch();
    fnd.drop_file("web/main.cjs", BEFORE);
    fnd.drop_file("web/function.toml", "");
    answers(&fnd, "web", "before");
    fnd.drop_file("web/package.json", PACKAGE);
    fnd.drop_file("web/main.cjs", CODE);
    let error = error_with(&fnd, "web", "no space left on device");
    assert!(error.contains("the installation of its dependencies failed"), "{error}");
    assert_eq!(fnd.invoke("web", "\"Ada\"").text(), "before");
    let whole = |tree: PathBuf| tree.join(".fnd-packages").exists() && tree.join("node_modules/fndpad").exists();
    assert!(trees(&fnd).into_iter().all(whole), "{:?}", trees(&fnd));
    let home = fs::read_dir(fnd.path("state/home/fnd-build")).unwrap();
    assert_eq!(home.count(), 0, "a failed installation takes no room");
    mount.resize("256m");
    let _ = fnd.ctl(&["build", "web"]).expect_code(0);
    answers(&fnd, "web", "one .....Ada");
    let [tree] = trees(&fnd).try_into().unwrap();
    assert!(whole(tree));
    fnd.finish();
}

#[test]
fn an_installation_without_room_is_refused() {
    require!(root, cgroup);
    no_room(48 << 20, "32m");
}

#[test]
fn a_tree_that_has_no_room_beside_its_installation_is_refused() {
    require!(root, cgroup);
    no_room(20 << 20, "32m");
}
