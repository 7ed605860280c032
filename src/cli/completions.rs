//! `osdpl completions`, which prints a completion script, and `kubectl_complete-osdpl WORD… PREFIX`, which completes
//! the arguments of the kubectl plugin.

use std::process::ExitCode;

use clap::{Arg, Args, Command};
use clap_complete::Shell;

use super::output;

/// The name of the program that kubectl runs to complete the arguments of the plugin `kubectl-osdpl`. This program is
/// osdpl itself: users install osdpl under both names.
pub(crate) const KUBECTL: &str = "kubectl_complete-osdpl";

#[derive(Args)]
pub(crate) struct Arguments {
    /// The shell for which osdpl prints completions.
    shell: Shell,
}

impl Arguments {
    pub(crate) fn run(&self, mut root: Command) -> ExitCode {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut root, "osdpl", &mut script);
        output::print(String::from_utf8_lossy(&script));
        ExitCode::SUCCESS
    }
}

/// Prints the candidates for the word that the user is typing, in the format of the library cobra, which kubectl uses:
/// one candidate and its description per line, then a directive, which says whether the shell completes file names. The
/// last of `words` is the typed prefix.
pub(crate) fn kubectl(mut root: Command, words: &[String]) -> ExitCode {
    // `build` adds the `help` subcommands and the global options to the command, so that the shell completes them, too.
    root.build();
    let Some((prefix, before)) = words.split_last() else { return ExitCode::SUCCESS };
    let mut command = &root;
    for word in before {
        command = command.find_subcommand(word).unwrap_or(command);
    }
    let option = before.last().and_then(|word| find_option(command, word));
    let (candidates, takes_files) = match option.filter(|option| option.get_action().takes_values()) {
        Some(option) => (values(option), takes_file(option)),
        None if prefix.starts_with('-') => (options(command), false),
        None => names(command),
    };
    for (candidate, about) in candidates.iter().filter(|(candidate, _)| candidate.starts_with(prefix)) {
        output::line(format_args!("{candidate}\t{about}"));
    }
    // The last line is cobra's directive. With `:4`, the shell never completes file names. With `:0`, it completes file
    // names if osdpl prints no candidate.
    output::line(if takes_files { ":0" } else { ":4" });
    ExitCode::SUCCESS
}

type Candidates = Vec<(String, String)>;

fn find_option<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|option| {
        let long = word.strip_prefix("--").is_some_and(|word| option.get_long() == Some(word));
        let short = option.get_short().is_some_and(|short| word == format!("-{short}"));
        long || short
    })
}

fn values(option: &Arg) -> Candidates {
    let values = option.get_possible_values();
    values.iter().map(|value| (value.get_name().to_owned(), help(value.get_help()))).collect()
}

/// Whether the shell completes file names as values of an option. The function assumes that every option without a
/// fixed set of values takes a file, because most of these options do.
fn takes_file(option: &Arg) -> bool {
    option.get_possible_values().is_empty()
}

fn options(command: &Command) -> Candidates {
    let visible = command.get_arguments().filter(|option| !option.is_hide_set());
    visible.filter_map(|option| Some((format!("--{}", option.get_long()?), help(option.get_help())))).collect()
}

/// Returns the candidates for a word that is neither an option nor an option's value: the subcommands or, if the
/// command has none, the values of its positional arguments. Also returns `false`, because the shell never completes
/// file names for such a word.
fn names(command: &Command) -> (Candidates, bool) {
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    let subcommands: Candidates = visible.map(|found| (found.get_name().to_owned(), help(found.get_about()))).collect();
    if subcommands.is_empty() {
        (command.get_positionals().flat_map(values).collect(), false)
    } else {
        (subcommands, false)
    }
}

/// Returns only the first line of an option's or command's help, because a candidate and its description must fit one
/// line.
fn help(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}
