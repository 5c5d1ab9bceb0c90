//! The terminal face of `loadwire-check`: checks a folder of vectors, is a testee on stdin, or is one
//! end of a load socket.

mod answer;
mod golden;
#[cfg(feature = "live")]
mod sockets;
mod testee;

use std::path::Path;
use std::process::ExitCode;

use loadwire_check::Revision;

const HELP: &str = "\
Checks SGLang load-gauge vectors with the decoder of the crate loadwire-check.

usage: loadwire-check golden DIR
       loadwire-check decode [--revision N]
       loadwire-check listen ENDPOINT [--count N] [--seconds S] [--revision N]
       loadwire-check publish ENDPOINT [--count N] [--interval S] [--seconds S]
                              [--subscribers N] [--rank N] [--revision N]

commands:
  golden DIR   check a folder of vectors: the hashes and counts of its manifest, every payload in
               every spelling and every message as a reader of each revision, and the canonical
               bytes of all that an engine may send
  decode       be a testee: after a greeting, read one case a line on standard input (JSON) and
               answer each on standard output; a line that is no case is answered with an error
               --revision N   decode as a reader of revision N; the newest one unless said
  listen ENDPOINT
               subscribe to one rank of an engine, such as tcp://10.0.0.5:5558, and print each
               message as a JSON line: what is read of it, or the rule that it breaks, with its
               frames; goes on over bad messages and restarts, until it is stopped
               --count N      end after N messages
               --seconds S    end after S seconds
               --revision N   read as a reader of revision N
  publish ENDPOINT
               bind a load socket and publish a reading as an engine does; port 0 is one that the
               system picks, and the first line says which
               --count N      end after N messages
               --interval S   seconds between two, 1 unless said (an engine's heartbeat)
               --seconds S    end after S seconds
               --subscribers N  wait for N subscriptions first
               --rank N       say this rank
               --revision N   publish as an engine of revision N
               (both are there in a program built with the feature live)

options:
  -h, --help      print this
  -V, --version   print name, version, revision and the content hash of the built-in vectors

exit status: 0 all agree, 1 something disagrees, 2 it could not be checked; of listen, 1 when a
message was refused or none came, and of publish, 1 when too few subscribers came
";

/// The exit status for a folder that cannot be read or a command that is not understood.
const NOT_CHECKED: u8 = 2;

fn main() -> ExitCode {
    // Arguments that are no UTF-8 are none of the words below, and a folder keeps its bytes.
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(|argument| argument.to_str().unwrap_or("")).collect();
    match words[..] {
        ["-h" | "--help"] | ["golden" | "decode" | "listen" | "publish", "-h" | "--help"] => {
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
        #[cfg(feature = "live")]
        [command @ ("listen" | "publish"), ..] => sockets::run(command, &words[1..]),
        #[cfg(not(feature = "live"))]
        [command @ ("listen" | "publish"), ..] => misunderstood(&format!(
            "{command} is not in this program: it takes the feature live \
             (cargo install loadwire-check --features cli,live)"
        )),
        [] => misunderstood("a command is needed"),
        ["golden"] => misunderstood("golden needs a folder"),
        _ => misunderstood(&format!("not understood: {}", words.join(" "))),
    }
}

fn misunderstood(why: &str) -> ExitCode {
    eprintln!("loadwire-check: {why}\n\n{HELP}");
    ExitCode::from(NOT_CHECKED)
}
