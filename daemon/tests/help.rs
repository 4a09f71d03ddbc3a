//! The help of `fnd`, as a snapshot.

use std::process::Command;

#[test]
fn help_of_fnd() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fnd"));
    let output = command.env_clear().env("COLUMNS", "80").arg("--help").output().unwrap();
    insta::with_settings!(
        { omit_expression => true, prepend_module_to_snapshot => false },
        { insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap()) }
    );
}
