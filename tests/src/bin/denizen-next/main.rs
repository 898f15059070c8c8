//! The program `denizen` as its next version would be: see [`denizen_tests::next_release`].

use std::process::ExitCode;

fn main() -> ExitCode {
    denizen::cli::main_as(&denizen_tests::next_release::NEXT)
}
