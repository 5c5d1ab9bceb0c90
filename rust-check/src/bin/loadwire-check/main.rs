//! The terminal face of `loadwire-check`: checks a folder of vectors, or is a testee on stdin.

mod answer;
mod golden;
mod testee;

use std::path::Path;
use std::process::ExitCode;

use loadwire_check::Revision;

const HELP: &str = "\
Checks SGLang load-gauge vectors with the decoder of the crate loadwire-check.

usage: loadwire-check golden DIR
       loadwire-check decode [--revision N]

commands:
  golden DIR   check a folder of vectors: the hashes and counts of its manifest, every payload in
               every spelling and every message as a reader of each revision, and the canonical
               bytes of all that an engine may send
  decode       be a testee: after a greeting, read one case a line on standard input (JSON) and
               answer each on standard output; a line that is no case is answered with an error
               --revision N   decode as a reader of revision N; the newest one unless said

options:
  -h, --help      print this
  -V, --version   print name, version, revision and the content hash of the built-in vectors

exit status: 0 all agree, 1 something disagrees, 2 it could not be checked
";

/// The exit status for a folder that cannot be read or a command that is not understood.
const NOT_CHECKED: u8 = 2;

fn main() -> ExitCode {
    // Arguments that are no UTF-8 are none of the words below, and a folder keeps its bytes.
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(|argument| argument.to_str().unwrap_or("")).collect();
    match words[..] {
        ["-h" | "--help"] | ["golden" | "decode", "-h" | "--help"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        ["-V" | "--version"] => {
            println!(
                "loadwire-check {}, {}, vectors {}",
                env!("CARGO_PKG_VERSION"),
                Revision::LATEST,
                loadwire_check::table::CONTENT_HASH
            );
            ExitCode::SUCCESS
        }
        ["golden", _] => golden::run(Path::new(&arguments[1])),
        ["decode"] => testee::run(Revision::LATEST),
        ["decode", "--revision", number] => {
            match number.parse().ok().and_then(Revision::from_number) {
                Some(revision) => testee::run(revision),
                None => misunderstood(&format!(
                    "no revision {number:?}; there are {}",
                    Revision::ALL
                        .iter()
                        .map(|r| r.number().to_string())
                        .collect::<Vec<_>>()
                        .join(", ")
                )),
            }
        }
        [] => misunderstood("a command is needed"),
        ["golden"] => misunderstood("golden needs a folder"),
        _ => misunderstood(&format!("not understood: {}", words.join(" "))),
    }
}

fn misunderstood(why: &str) -> ExitCode {
    eprintln!("loadwire-check: {why}\n\n{HELP}");
    ExitCode::from(NOT_CHECKED)
}
