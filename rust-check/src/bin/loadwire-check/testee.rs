//! The testee protocol over stdin and stdout: JSON lines, one object a line, each flushed.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use loadwire_check::{Policy, Revision};
use serde_json::{json, Map, Value};

use crate::answer;

/// The version of the protocol.
const PROTOCOL: u32 = 1;

/// Greets, and answers until the input ends. Nothing that a line says ends it.
pub fn run(revision: Revision) -> ExitCode {
    match converse(revision, io::stdin().lock(), io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever started us has gone, and so has whoever could read why.
        Err(why) if why.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("loadwire-check: {why}");
            ExitCode::from(crate::NOT_CHECKED)
        }
    }
}

fn converse(revision: Revision, mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    say(&mut output, &greeting(revision))?;
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        say(&mut output, &respond(&line, revision))?;
    }
}

fn say(output: &mut impl Write, message: &Value) -> io::Result<()> {
    writeln!(output, "{message}")?;
    output.flush()
}

fn greeting(revision: Revision) -> Value {
    let policies: Map<_, _> = Policy::ALL
        .iter()
        .map(|policy| (policy.name().to_owned(), policy.ours().name().into()))
        .collect();
    json!({
        "loadwire": PROTOCOL,
        "implementation": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "revision": revision.number(),
        "policies": policies,
    })
}

fn respond(line: &[u8], revision: Revision) -> Value {
    let case: Value = match serde_json::from_slice(line) {
        Ok(case) => case,
        Err(why) => return json!({"id": null, "error": format!("no JSON: {why}")}),
    };
    // The id is echoed as it came, whatever it is, so that the answer finds its case.
    let id = case.get("id").cloned().unwrap_or_default();
    match decide(&case, revision) {
        Ok(Ok(accepted)) => json!({"id": id, "accept": accepted}),
        Ok(Err(refused)) => json!({"id": id, "reject": refused}),
        Err(why) => json!({"id": id, "error": why}),
    }
}

fn decide(case: &Value, revision: Revision) -> Result<Result<Value, Value>, String> {
    if !case.is_object() {
        return Err("a case is an object".into());
    }
    match case.get("kind").and_then(Value::as_str) {
        Some("payload") => {
            let hex = case.get("hex").and_then(Value::as_str);
            let payload = answer::unhex(hex.ok_or("a payload case has a string \"hex\"")?)?;
            Ok(answer::payload(&payload, revision))
        }
        Some("frames") => {
            let frames = case.get("frames").and_then(Value::as_array);
            let frames = frames.ok_or("a frames case has a list \"frames\"")?;
            Ok(answer::frames(&answer::unhex_all(frames)?, revision))
        }
        Some(other) => Err(format!("no such kind of case: {other}")),
        None => Err("a case has a string \"kind\"".into()),
    }
}
