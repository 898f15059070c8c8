//! The program `denizen`.

use std::process::ExitCode;

fn main() -> ExitCode {
    denizen::cli::main()
}
