//! `fndctl`.

use std::process::ExitCode;

fn main() -> ExitCode {
    fndctl::main()
}
