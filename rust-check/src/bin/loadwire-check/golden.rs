//! Checks a folder of vectors: its manifest, and every verdict in it.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use loadwire_check::table::CONTENT_HASH;
use loadwire_check::{build_frames, decode_as, encode, parse_frames_as, Policy, Revision};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::answer;

/// What the folder does not say, or says in a form that this version does not know.
type Unreadable = String;

/// Checks the folder and prints what came of it.
pub fn run(folder: &Path) -> ExitCode {
    match check(folder) {
        Ok(found) => found.print(folder),
        Err(why) => {
            eprintln!("loadwire-check: {why}");
            ExitCode::from(crate::NOT_CHECKED)
        }
    }
}

#[derive(Default)]
struct Findings {
    content_hash: String,
    files: Vec<String>,
    disagreements: Vec<String>,
    notes: Vec<String>,
    verdicts: usize,
    encoded: usize,
}

impl Findings {
    fn disagree(&mut self, what: String) {
        self.disagreements.push(what);
    }

    fn note(&mut self, what: String) {
        if !self.notes.contains(&what) {
            self.notes.push(what);
        }
    }

    fn print(&self, folder: &Path) -> ExitCode {
        for disagreement in &self.disagreements {
            println!("DISAGREES  {disagreement}");
        }
        for note in &self.notes {
            println!("note       {note}");
        }
        println!(
            "{}: {}; {} verdicts checked, {} canonical forms encoded, {} disagree",
            folder.display(),
            self.files.join(", "),
            self.verdicts,
            self.encoded,
            self.disagreements.len()
        );
        if self.content_hash == CONTENT_HASH {
            println!("content hash {CONTENT_HASH}, the same as the built-in vectors");
        } else {
            println!(
                "content hash {} DIFFERS from the built-in vectors, {CONTENT_HASH}",
                self.content_hash
            );
        }
        ExitCode::from(u8::from(!self.disagreements.is_empty()))
    }
}

fn check(folder: &Path) -> Result<Findings, Unreadable> {
    let mut found = Findings::default();
    let manifest = parse(&read(folder, "manifest.json")?, "manifest.json")?;
    format_is_known(&manifest, "manifest.json")?;
    found.content_hash = text(&manifest, "content_hash", "manifest.json")?.to_owned();

    let files = manifest.get("files").and_then(Value::as_object);
    let files = files.ok_or("manifest.json: no files")?;
    let mut lines = Vec::new();
    for (name, entry) in files {
        let sha256 = text(entry, "sha256", name)?;
        lines.push(format!("{name} {sha256}\n"));
        let bytes = read(folder, name)?;
        let actual = hash(&bytes);
        if actual != sha256 {
            found.disagree(format!("{name}: its hash is {actual}, and the manifest says {sha256}"));
        }
        check_file(&mut found, name, &parse(&bytes, name)?, entry)?;
    }
    lines.sort_unstable();
    let actual = hash(lines.concat().as_bytes());
    if actual != found.content_hash {
        found.disagree(format!(
            "manifest.json: the content hash of its files is {actual}, and it says {}",
            found.content_hash
        ));
    }
    for needed in ["payloads.json", "frames.json"] {
        if !files.contains_key(needed) {
            return Err(format!("manifest.json: no {needed} among its files"));
        }
    }
    Ok(found)
}

fn check_file(
    found: &mut Findings,
    name: &str,
    file: &Value,
    entry: &Value,
) -> Result<(), Unreadable> {
    format_is_known(file, name)?;
    let vectors = file.get("vectors").and_then(Value::as_array);
    let vectors = vectors.ok_or_else(|| format!("{name}: no vectors"))?;
    found.files.push(format!("{name} with {} vectors", vectors.len()));
    if entry.get("vectors").and_then(Value::as_u64) != Some(vectors.len() as u64) {
        found.disagree(format!(
            "{name}: it has {} vectors, and the manifest says {}",
            vectors.len(),
            entry.get("vectors").unwrap_or(&Value::Null)
        ));
    }
    let check = match text(file, "subject", name)? {
        "payloads" => check_payload,
        "frames" => check_frames,
        other => {
            found.note(format!("{name} is about {other}, which no decoder of bytes can check"));
            return Ok(());
        }
    };
    for vector in vectors {
        let id = text(vector, "id", name)?;
        check(found, id, vector).map_err(|why| format!("{name}: {id}: {why}"))?;
    }
    Ok(())
}

fn check_payload(found: &mut Findings, id: &str, vector: &Value) -> Result<(), Unreadable> {
    let own = answer::unhex(text(vector, "hex", id)?)?;
    let spellings = vector.get("spellings").and_then(Value::as_object);
    for (revision, verdict) in readers(found, vector)? {
        let ours = answer::payload(&own, revision);
        compare(found, id, revision, verdict, &ours, true)?;
        for (name, hex) in spellings.ok_or("no spellings")? {
            let bytes = answer::unhex(hex.as_str().ok_or("a spelling that is no string")?)?;
            let ours = answer::payload(&bytes, revision);
            compare(found, &format!("{id}/{name}"), revision, verdict, &ours, false)?;
        }
    }
    let encoded = decode_as(&own, Revision::LATEST)
        .ok()
        .map(|stat| (stat.revision(), encode(&stat).as_bytes() == own));
    check_engine(found, id, vector, encoded)
}

fn check_frames(found: &mut Findings, id: &str, vector: &Value) -> Result<(), Unreadable> {
    let frames = vector.get("frames").and_then(Value::as_array).ok_or("no frames")?;
    let frames = answer::unhex_all(frames)?;
    for (revision, verdict) in readers(found, vector)? {
        let ours = answer::frames(&frames, revision);
        compare(found, id, revision, verdict, &ours, true)?;
    }
    let encoded = parse_frames_as(&frames, Revision::LATEST).ok().map(|message| {
        let built = build_frames(message.sequence, &message.stat);
        let same = built.map(|built| built.as_slices().iter().eq(frames.iter()));
        (message.stat.revision(), same == Ok(true))
    });
    check_engine(found, id, vector, encoded)
}

/// What our encoder makes of a reading is what an engine may send, and nothing else is.
fn check_engine(
    found: &mut Findings,
    id: &str,
    vector: &Value,
    encoded: Option<(Revision, bool)>,
) -> Result<(), Unreadable> {
    let engine = match vector.get("engine").ok_or("no engine")? {
        Value::Null => None,
        number => match known(number.as_u64()) {
            Some(revision) => Some(revision),
            None => {
                found.note(format!("engines of revision {number} are newer than this program"));
                return Ok(());
            }
        },
    };
    let ours = encoded.and_then(|(revision, same)| same.then_some(revision));
    found.encoded += usize::from(engine.is_some());
    if engine != ours {
        let say = |revision: Option<Revision>| match revision {
            Some(revision) => format!("an engine of {revision} may send it"),
            None => "no engine may send it".to_owned(),
        };
        found.disagree(format!("{id}: {}, and by our encoder {}", say(engine), say(ours)));
    }
    Ok(())
}

fn known(number: Option<u64>) -> Option<Revision> {
    number.and_then(|number| u32::try_from(number).ok()).and_then(Revision::from_number)
}

/// The verdicts for the revisions that this program reads.
fn readers<'a>(
    found: &mut Findings,
    vector: &'a Value,
) -> Result<Vec<(Revision, &'a Value)>, Unreadable> {
    let readers = vector.get("readers").and_then(Value::as_object).ok_or("no readers")?;
    let mut listed = Vec::new();
    for (number, verdict) in readers {
        match known(number.parse().ok()) {
            Some(revision) => listed.push((revision, verdict)),
            None => found.note(format!("readers of revision {number} are newer than this program")),
        }
    }
    for revision in Revision::ALL {
        if !listed.iter().any(|(listed, _)| listed == revision) {
            return Err(format!("no verdict for a reader of {revision}"));
        }
    }
    Ok(listed)
}

/// Holds one answer against its verdict.
fn compare(
    found: &mut Findings,
    id: &str,
    revision: Revision,
    verdict: &Value,
    ours: &Result<Value, Value>,
    own_form: bool,
) -> Result<(), Unreadable> {
    found.verdicts += 1;
    let verdict = match text(verdict, "verdict", id)? {
        "declare" => {
            let policy = text(verdict, "policy", id)?;
            let policy = Policy::from_name(policy).ok_or_else(|| format!("no policy {policy}"))?;
            verdict
                .pointer(&format!("/outcomes/{}", policy.ours().name()))
                .ok_or_else(|| format!("{policy} has no outcome {}", policy.ours()))?
        }
        _ => verdict,
    };
    let given = match ours {
        Ok(accepted) => ("accept", accepted),
        Err(refused) => ("reject", refused),
    };
    let mut keys = match given.0 {
        "accept" => vec!["revision", "value", "sequence"],
        _ => vec!["rule", "reason", "element", "frame"],
    };
    // Other spellings have the same fault at another byte, and some faults are at none.
    if given.0 == "reject" && own_form && !missing(verdict.get("offset")) {
        keys.push("offset");
    }
    let expected = text(verdict, "verdict", id)?;
    let differs = |key: &str| {
        let (theirs, ours) = (verdict.get(key), given.1.get(key));
        theirs != ours && !(missing(theirs) && missing(ours))
    };
    if expected != given.0 || keys.iter().any(|key| differs(key)) {
        found.disagree(format!(
            "{id} as a reader of {revision}: expected {}, got {} {}",
            shown(verdict),
            given.0,
            given.1
        ));
    }
    Ok(())
}

fn missing(value: Option<&Value>) -> bool {
    matches!(value, None | Some(Value::Null))
}

fn shown(verdict: &Value) -> String {
    let Value::Object(verdict) = verdict else { return verdict.to_string() };
    let kind = verdict.get("verdict").and_then(Value::as_str).unwrap_or("?");
    let rest: Map<_, _> = verdict
        .iter()
        .filter(|(key, _)| *key != "verdict")
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    format!("{kind} {}", Value::Object(rest))
}

fn read(folder: &Path, name: &str) -> Result<Vec<u8>, Unreadable> {
    let path = folder.join(name);
    fs::read(&path).map_err(|why| format!("{}: {why}", path.display()))
}

fn parse(bytes: &[u8], name: &str) -> Result<Value, Unreadable> {
    serde_json::from_slice(bytes).map_err(|why| format!("{name}: {why}"))
}

fn format_is_known(file: &Value, name: &str) -> Result<(), Unreadable> {
    match file.get("format").and_then(Value::as_u64) {
        Some(1) => Ok(()),
        _ => Err(format!("{name}: not of format 1, the one that this program reads")),
    }
}

fn text<'a>(value: &'a Value, key: &str, place: &str) -> Result<&'a str, Unreadable> {
    let text = value.get(key).and_then(Value::as_str);
    text.ok_or_else(|| format!("{place}: no text {key:?}"))
}

fn hash(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}
