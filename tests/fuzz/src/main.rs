//! Runs libFuzzer on the target that the environment variable `FUZZ_TARGET` names. `make fuzz` starts this program.

#![no_main]

use std::sync::LazyLock;

use fuzz::Session;

static SESSION: LazyLock<Session> = LazyLock::new(Session::from_environment);

libfuzzer_sys::fuzz_target!(init: SESSION.write_seeds(), |input| SESSION.run(input));
