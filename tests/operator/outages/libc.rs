//! Replaces functions of the operator's C library, so that a test controls the operator's wall clock and the responses
//! of its DNS server.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::operator::Setup;
use crate::world::World;

/// The byte offsets of the 64-bit numbers in the file through which a test controls the library `libc.c`. The library
/// maps this file into its memory.
const CLOCK_OFFSET: u64 = 0;
const DNS_IS_SILENT: u64 = 8;
const WAITING_LOOKUPS: u64 = 16;

/// The compiled library `libc.c`, and the file through which the test controls the library.
pub struct Libc {
    library: PathBuf,
    controls: PathBuf,
    file: File,
}

impl Libc {
    /// Compiles the library with `cc`, which is present because Rust links programs with it. Two libraries of one test
    /// need different values of `name`.
    pub fn new(world: &World, name: &str) -> Self {
        let file = |ending: &str| world.folder.path().join(format!("{name}.{ending}"));
        let (library, controls) = (file("so"), file("controls"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/operator/outages/libc.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl");
        let output = compiler.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::write(&controls, [0; 24]).unwrap();
        let file = File::options().read(true).write(true).open(&controls).unwrap();
        Self { library, controls, file }
    }

    /// Sets by how many seconds the operators' wall clock is ahead. The operators' monotonic clock and helm's clocks
    /// stay correct.
    pub fn set_clock_offset(&self, seconds: i64) {
        self.set(CLOCK_OFFSET, seconds);
    }

    /// Makes the operators' DNS server silent, or makes it respond again.
    pub fn set_dns_silent(&self, is_silent: bool) {
        self.set(DNS_IS_SILENT, i64::from(is_silent));
    }

    /// Returns how many lookups of the operators wait for the DNS server.
    pub fn waiting_lookups(&self) -> i64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, WAITING_LOOKUPS).unwrap();
        i64::from_ne_bytes(bytes)
    }

    fn set(&self, position: u64, value: i64) {
        self.file.write_all_at(&value.to_ne_bytes(), position).unwrap();
    }
}

impl Setup<'_> {
    /// Makes the operator load this library, whose functions replace those of the C library.
    pub fn libc(self, libc: &Libc) -> Self {
        self.environment("LD_PRELOAD", &libc.library).environment("OSDPL_TEST_LIBC", &libc.controls)
    }
}
