//! The program: the testee protocol end to end, and the check of a folder of vectors.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use loadwire_check::table::{Ruling, CONTENT_HASH, FRAMES, PAYLOADS};
use loadwire_check::{Policy, Revision};
use serde_json::{json, Value};
use sha2::{Digest, Sha256};

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_loadwire-check"))
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).stdin(Stdio::null()).output().expect("the program")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// A testee that answers one line at a time, as a checker would run it.
struct Testee {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Testee {
    fn start(arguments: &[&str]) -> (Self, Value) {
        let mut child = program()
            .arg("decode")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut testee = Self { child, input, output };
        let greeting = testee.hear();
        (testee, greeting)
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|why| panic!("{why}: {line:?}"))
    }

    fn ask_raw(&mut self, line: &[u8]) -> Value {
        let input = self.input.as_mut().expect("open");
        input.write_all(&[line, b"\n"].concat()).expect("it reads");
        self.hear()
    }

    fn ask(&mut self, case: &Value) -> Value {
        self.ask_raw(case.to_string().as_bytes())
    }
}

impl Drop for Testee {
    fn drop(&mut self) {
        // The end of its input is all that a testee is told.
        drop(self.input.take());
        let status = self.child.wait().expect("a status");
        assert!(std::thread::panicking() || status.success(), "{status}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An answer next to what the vector says.
fn assert_answer(answer: &Value, id: &str, ruling: &Ruling, own_form: bool) {
    assert_eq!(answer["id"], id);
    match *ruling {
        Ruling::Accept { revision, values, sequence } => {
            let accept = &answer["accept"];
            assert_eq!(accept["revision"], revision.number(), "{id}: {answer}");
            let value = accept["value"].as_object().expect("fields");
            assert_eq!(value.len(), values.len(), "{id}: {answer}");
            for (name, expected) in revision.fields().iter().zip(values) {
                assert_eq!(value[*name], json!(expected.map(|v| v.to_string())), "{id}: {answer}");
            }
            assert_eq!(accept.get("sequence"), sequence.map(|s| json!(s.to_string())).as_ref());
        }
        Ruling::Reject { rule, reason, offset, element, frame, .. } => {
            let reject = &answer["reject"];
            assert_eq!(reject["reason"], reason.code(), "{id}: {answer}");
            assert_eq!(reject["rule"], rule, "{id}: {answer}");
            assert_eq!(reject["element"], json!(element), "{id}: {answer}");
            assert_eq!(reject["frame"], json!(frame), "{id}: {answer}");
            if let (Some(offset), true) = (offset, own_form) {
                assert_eq!(reject["offset"], offset, "{id}: {answer}");
            }
        }
    }
}

/// The greeting names protocol, implementation, revision and an answer to every policy.
#[test]
fn the_testee_greets() {
    for (arguments, revision) in [(&[][..], 2), (&["--revision", "1"], 1)] {
        let (_testee, greeting) = Testee::start(arguments);
        assert_eq!(greeting["loadwire"], 1);
        assert_eq!(greeting["implementation"], "loadwire-check");
        assert_eq!(greeting["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(greeting["revision"], revision);
        assert_eq!(greeting["policies"].as_object().expect("policies").len(), Policy::ALL.len());
        for &policy in Policy::ALL {
            assert_eq!(greeting["policies"][policy.name()], policy.ours().name());
        }
    }
}

/// Every form of every vector, sent one line at a time and answered before the next, has the answer
/// that the vector asks for, as a reader of each revision.
#[test]
fn the_testee_answers_every_vector() {
    for &revision in Revision::ALL {
        let (mut testee, _) = Testee::start(&["--revision", &revision.number().to_string()]);
        for vector in PAYLOADS {
            let verdict = vector.verdict(revision).expect("a verdict");
            let ruling = verdict.ruling(|policy| Some(policy.ours())).expect("an outcome");
            for (spelling, payload) in vector.forms() {
                let id = format!("{}/{}", vector.id, spelling.unwrap_or(""));
                let case = json!({"id": id, "kind": "payload", "hex": hex(payload)});
                assert_answer(&testee.ask(&case), &id, ruling, spelling.is_none());
            }
        }
        for vector in FRAMES {
            let verdict = vector.verdict(revision).expect("a verdict");
            let ruling = verdict.ruling(|policy| Some(policy.ours())).expect("an outcome");
            let frames: Vec<_> = vector.frames.iter().map(|frame| hex(frame)).collect();
            let case = json!({"id": vector.id, "kind": "frames", "frames": frames});
            assert_answer(&testee.ask(&case), vector.id, ruling, true);
        }
    }
}

/// A line that is no case is answered with an error that says why, and the next case is answered as
/// ever: nothing that a line says ends the testee.
#[test]
fn the_testee_survives_bad_lines() {
    let (mut testee, _) = Testee::start(&[]);
    let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    let lines: &[(&[u8], &str)] = &[
        (b"no JSON", "no JSON"),
        (b"{\"id\":", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (&deep, "no JSON"),
        (b"[]", "a case is an object"),
        (b"7", "a case is an object"),
        (b"{}", "a string \"kind\""),
        (br#"{"kind":"endpoint"}"#, "no such kind of case: endpoint"),
        (br#"{"kind":"payload"}"#, "a string \"hex\""),
        (br#"{"kind":"payload","hex":7}"#, "a string \"hex\""),
        (br#"{"kind":"payload","hex":"9"}"#, "an odd number"),
        (br#"{"kind":"payload","hex":"9g"}"#, "no hexadecimal digit: g"),
        ("{\"kind\":\"payload\",\"hex\":\"\u{e9}\"}".as_bytes(), "no hexadecimal digit"),
        (br#"{"kind":"frames","frames":"9a"}"#, "a list \"frames\""),
        (br#"{"kind":"frames","frames":[7]}"#, "a frame that is no string"),
        (br#"{"kind":"frames","frames":["x"]}"#, "an odd number"),
    ];
    for (line, part) in lines {
        let answer = testee.ask_raw(line);
        assert_eq!(answer["id"], Value::Null, "{answer}");
        assert!(answer["error"].as_str().expect("an error").contains(part), "{answer}");
        let answer = testee.ask(&json!({"id": "next", "kind": "payload", "hex": ""}));
        assert_eq!(answer["reject"]["reason"], "truncated");
    }
    for id in [json!("17"), json!(17), json!(null), json!({"a": [1]})] {
        assert_eq!(testee.ask(&json!({"id": id, "kind": "nothing"}))["id"], id);
    }
}

/// Empty lines are no cases, and hexadecimal digits may be of either case.
#[test]
fn the_testee_is_lenient_where_it_can_be() {
    let (mut testee, _) = Testee::start(&[]);
    let answer = testee.ask_raw(b"\n  \n{\"id\":1,\"kind\":\"payload\",\"hex\":\"C1\"}\r");
    assert_eq!(answer["reject"]["reason"], "malformed");
}

/// A copy of the vectors, rewritten as a test likes, under a name of its own.
fn copied(name: &str, change: impl Fn(&str, &mut Value)) -> Option<PathBuf> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden");
    if !golden.is_dir() {
        eprintln!("NOT RUN: no golden/ beside this crate, so the program has no folder to check");
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("golden").join(name);
    fs::create_dir_all(&folder).expect("a folder");
    let read = |file: &str| -> Value {
        serde_json::from_slice(&fs::read(golden.join(file)).expect(file)).expect("JSON")
    };
    let mut manifest = read("manifest.json");
    let mut lines = Vec::new();
    for (file, entry) in manifest["files"].as_object_mut().expect("files") {
        let mut content = read(file);
        change(file, &mut content);
        let content = content.to_string();
        entry["sha256"] = format!("{:x}", Sha256::digest(&content)).into();
        lines.push(format!("{file} {}\n", entry["sha256"].as_str().expect("a hash")));
        fs::write(folder.join(file), content).expect("a file");
    }
    lines.sort_unstable();
    manifest["content_hash"] = format!("{:x}", Sha256::digest(lines.concat())).into();
    change("manifest.json", &mut manifest);
    fs::write(folder.join("manifest.json"), manifest.to_string()).expect("a file");
    Some(folder)
}

fn golden(folder: &Path) -> (Option<i32>, String) {
    let output = run(&["golden", folder.to_str().expect("UTF-8")]);
    (output.status.code(), stdout(&output) + &String::from_utf8_lossy(&output.stderr))
}

fn vector<'a>(file: &'a mut Value, id: &str) -> &'a mut Value {
    let vectors = file["vectors"].as_array_mut().expect("vectors");
    vectors.iter_mut().find(|vector| vector["id"] == id).expect(id)
}

/// The folder of this repository agrees in every verdict and is the one that is built in.
#[test]
fn the_golden_folder_agrees() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden");
    if !folder.is_dir() {
        eprintln!("NOT RUN: no golden/ beside this crate");
        return;
    }
    let (status, text) = golden(&folder);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains(" 0 disagree"), "{text}");
    assert!(text.contains("the same as the built-in vectors"), "{text}");
}

/// Vectors that agree but are not the built-in ones pass, and the difference is said.
#[test]
fn other_vectors_are_told_apart() {
    let Some(folder) = copied("other", |_, _| {}) else { return };
    let (status, text) = golden(&folder);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("DIFFERS from the built-in vectors"), "{text}");
    assert!(text.contains(CONTENT_HASH), "{text}");
}

/// Each way in which a folder can be wrong ends in status 1, and the line says where.
#[test]
fn a_wrong_folder_disagrees() {
    type Change = fn(&str, &mut Value);
    let accept = "rev1-golden-a";
    assert!(PAYLOADS.iter().any(|vector| vector.id == accept));
    let changes: &[(&str, Change, &str)] = &[
        (
            "value",
            |file, content| {
                if file == "payloads.json" {
                    let value = &mut vector(content, "rev1-golden-a")["readers"]["1"]["value"];
                    value["num_tokens"] = "7".into();
                }
            },
            "rev1-golden-a as a reader of revision 1",
        ),
        (
            "verdict",
            |file, content| {
                if file == "payloads.json" {
                    vector(content, "rev1-golden-a")["hex"] = "80".into();
                }
            },
            "got reject",
        ),
        (
            "offset",
            |file, content| {
                if file == "payloads.json" {
                    vector(content, "tag-suffix")["readers"]["2"]["offset"] = 99.into();
                }
            },
            "tag-suffix as a reader of revision 2",
        ),
        (
            "spelling",
            |file, content| {
                if file == "payloads.json" {
                    vector(content, "rev1-golden-a")["spellings"] = json!({"wrong": "9101"});
                }
            },
            "rev1-golden-a/wrong as a reader",
        ),
        (
            "engine",
            |file, content| {
                if file == "payloads.json" {
                    vector(content, "rev1-golden-a")["engine"] = Value::Null;
                }
            },
            "rev1-golden-a: no engine may send it, and by our encoder",
        ),
        (
            "sequence",
            |file, content| {
                if file == "frames.json" {
                    let readers = &mut vector(content, "frames-rev1-golden-a")["readers"];
                    readers["1"]["sequence"] = "8".into();
                }
            },
            "frames-rev1-golden-a as a reader of revision 1",
        ),
        (
            "count",
            |file, content| {
                if file == "manifest.json" {
                    content["files"]["frames.json"]["vectors"] = 1.into();
                }
            },
            "frames.json: it has",
        ),
        (
            "hash",
            |file, content| {
                if file == "manifest.json" {
                    content["files"]["frames.json"]["sha256"] = "00".into();
                }
            },
            "frames.json: its hash is",
        ),
        (
            "content-hash",
            |file, content| {
                if file == "manifest.json" {
                    content["content_hash"] = "00".into();
                }
            },
            "manifest.json: the content hash of its files is",
        ),
    ];
    for (name, change, part) in changes {
        let Some(folder) = copied(name, change) else { return };
        let (status, text) = golden(&folder);
        assert_eq!(status, Some(1), "{name}: {text}");
        assert!(text.contains("DISAGREES") && text.contains(part), "{name}: {text}");
    }
}

/// A newer revision is named as what this program cannot check, and the rest is checked.
#[test]
fn newer_revisions_are_noted() {
    let newer = |file: &str, content: &mut Value| {
        if file == "payloads.json" {
            let readers = &mut vector(content, "rev1-golden-a")["readers"];
            readers["3"] = readers["2"].clone();
        }
    };
    let Some(folder) = copied("newer", newer) else { return };
    let (status, text) = golden(&folder);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("readers of revision 3 are newer than this program"), "{text}");
}

/// What cannot be checked at all ends in status 2, and the message says what is missing.
#[test]
fn an_unreadable_folder_is_not_checked() {
    let (status, text) = golden(Path::new("/no/such/folder"));
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("manifest.json"), "{text}");

    type Change = fn(&str, &mut Value);
    let changes: &[(&str, Change, &str)] = &[
        ("format", |_, content| content["format"] = 2.into(), "not of format 1"),
        (
            "missing",
            |file, content| {
                if file == "manifest.json" {
                    content["files"].as_object_mut().expect("files").remove("frames.json");
                }
            },
            "no frames.json among its files",
        ),
        (
            "readers",
            |file, content| {
                if file == "payloads.json" {
                    vector(content, "rev1-golden-a")["readers"] = json!({});
                }
            },
            "payloads.json: rev1-golden-a: no verdict for a reader of revision 1",
        ),
    ];
    for (name, change, part) in changes {
        let Some(folder) = copied(name, change) else { return };
        let (status, text) = golden(&folder);
        assert_eq!(status, Some(2), "{name}: {text}");
        assert!(text.contains(part), "{name}: {text}");
    }
}

/// Help and version are told on standard output; what is not understood is status 2, with the help.
#[test]
fn the_command_line_explains_itself() {
    for arguments in [&["--help"][..], &["-h"], &["golden", "--help"], &["decode", "-h"]] {
        let output = run(arguments);
        assert!(output.status.success());
        assert!(stdout(&output).contains("usage: loadwire-check golden DIR"));
    }
    let version = stdout(&run(&["--version"]));
    assert!(version.contains(env!("CARGO_PKG_VERSION")) && version.contains(CONTENT_HASH));
    let wrong: &[(&[&str], &str)] = &[
        (&[], "a command is needed"),
        (&["golden"], "golden needs a folder"),
        (&["speak"], "not understood: speak"),
        (&["decode", "--revision", "3"], "no revision \"3\"; there are 1, 2"),
        (&["decode", "--revision"], "not understood"),
    ];
    for (arguments, part) in wrong {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(part) && text.contains("usage:"), "{text}");
    }
}

/// What `listen` and `publish` do not understand is status 2, and says what there is; a program without
/// sockets says how to get one that has them.
#[test]
fn sockets_are_asked_for_rightly() {
    let with: &[(&[&str], &str)] = &[
        (&["listen"], "listen: it needs an endpoint, such as tcp://"),
        (&["publish", "--count", "1"], "publish: it needs an endpoint"),
        (
            &["listen", "tcp://h:1", "--interval", "1"],
            "no option \"--interval\"; there are --count",
        ),
        (&["listen", "tcp://h:1", "--count"], "--count needs a value"),
        (&["listen", "tcp://h:1", "--count", "-1"], "--count \"-1\" is none"),
        (&["listen", "tcp://h:1", "--seconds", "NaN"], "--seconds \"NaN\" is none"),
        (&["listen", "tcp://h:1", "--revision", "3"], "--revision \"3\" is none"),
    ];
    let without: &[(&[&str], &str)] =
        &[(&["listen", "tcp://h:1"], "--features cli,live"), (&["publish"], "feature live")];
    let live = cfg!(feature = "live");
    let wrong = if live { with } else { without };
    for (arguments, part) in wrong {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(part) && text.contains("usage:"), "{text}");
    }
    if live {
        let output = run(&["listen", "no-endpoint"]);
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.starts_with("loadwire-check: no-endpoint: "), "{text}");
    }
}
