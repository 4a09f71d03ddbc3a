//! The program `fnd-web`.

use std::process::ExitCode;

fn main() -> ExitCode {
    fnd_web::main()
}
