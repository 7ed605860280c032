//! osdpl: parse, dispatch, exit code.

fn main() -> std::process::ExitCode {
    osdpl_cli::main()
}
