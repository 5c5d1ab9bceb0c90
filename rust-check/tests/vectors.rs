//! Every vector of the table, in every spelling, for a reader of every revision.

use std::fs;
use std::path::PathBuf;

use loadwire_check::table::{
    Ruling, Verdict, CONTENT_HASH, FIELDS, FILES, FRAMES, PAYLOADS, PLANS, TIMELINES,
};
use loadwire_check::{
    build_frames, decode_as, encode, parse_frames_as, LoadStat, Policy, Refusal, Revision,
};

/// What one of our answers comes to, next to what the vector says.
fn agrees(
    ruling: &Ruling,
    answer: &Result<(Option<u64>, LoadStat), Refusal>,
    own_form: bool,
) -> Result<(), String> {
    let same = match (ruling, answer) {
        (&Ruling::Accept { revision, values, sequence }, Ok((number, stat))) => {
            stat.revision() == revision
                && stat.fields().eq(values.iter().copied())
                && *number == sequence
        }
        (&Ruling::Reject { rule, reason, offset, element, frame, .. }, Err(refusal)) => {
            let place = match offset {
                // Other spellings have the same fault at another byte.
                Some(offset) if own_form => refusal.offset == offset,
                _ => true,
            };
            refusal.reason == reason
                && refusal.rule() == rule
                && refusal.element == element
                && refusal.frame == frame
                && place
        }
        _ => false,
    };
    if same {
        Ok(())
    } else {
        Err(format!("expected {ruling:?}, got {answer:?}"))
    }
}

fn ours(verdict: &Verdict) -> &Ruling {
    verdict.ruling(|policy| Some(policy.ours())).expect("every policy has our answer")
}

/// Every form of every payload vector is answered as the vector says, for readers of both
/// revisions, with reason, rule, offset and element.
#[test]
fn every_payload_vector_holds() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    for vector in PAYLOADS {
        for &revision in Revision::ALL {
            let verdict = vector.verdict(revision).expect("a verdict for each revision");
            for (spelling, payload) in vector.forms() {
                checked += 1;
                let answer = decode_as(payload, revision).map(|stat| (None, stat));
                if let Err(why) = agrees(ours(verdict), &answer, spelling.is_none()) {
                    wrong.push(format!("{} {spelling:?} by {revision}: {why}", vector.id));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Every frame vector is answered as the vector says, the frame at fault included.
#[test]
fn every_frame_vector_holds() {
    let mut wrong = Vec::new();
    for vector in FRAMES {
        for &revision in Revision::ALL {
            let verdict = vector.verdict(revision).expect("a verdict for each revision");
            let answer = parse_frames_as(vector.frames, revision)
                .map(|message| (Some(message.sequence), message.stat));
            if let Err(why) = agrees(ours(verdict), &answer, true) {
                wrong.push(format!("{} by {revision}: {why}", vector.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The canonical encoder makes exactly the bytes that an engine may send, and makes none of the
/// bytes that no engine may send.
#[test]
fn encode_makes_what_an_engine_sends() {
    let mut engines = 0;
    for vector in PAYLOADS {
        let read = decode_as(vector.payload, Revision::LATEST);
        match (vector.engine, read) {
            (Some(revision), read) => {
                engines += 1;
                let stat = read.unwrap_or_else(|why| panic!("{}: {why}", vector.id));
                assert_eq!(stat.revision(), revision, "{}", vector.id);
                assert_eq!(encode(&stat).as_bytes(), vector.payload, "{}", vector.id);
                for (name, spelling) in vector.spellings {
                    let stat = decode_as(spelling, Revision::LATEST).expect(name);
                    assert_eq!(encode(&stat).as_bytes(), vector.payload, "{} {name}", vector.id);
                    assert_ne!(*spelling, vector.payload, "{} {name}", vector.id);
                }
            }
            (None, Ok(stat)) => {
                assert_ne!(encode(&stat).as_bytes(), vector.payload, "{}", vector.id);
            }
            (None, Err(_)) => {}
        }
    }
    assert!(engines > 0);
}

/// The frames that an engine may send are built again from what was read of them.
#[test]
fn build_frames_makes_what_an_engine_sends() {
    for vector in FRAMES {
        let Ok(message) = parse_frames_as(vector.frames, Revision::LATEST) else {
            assert_eq!(vector.engine, None, "{}", vector.id);
            continue;
        };
        let built =
            build_frames(message.sequence, &message.stat).expect("a sequence that was read");
        assert_eq!(built.as_slices() == vector.frames, vector.engine.is_some(), "{}", vector.id);
    }
}

/// A payload that is cut anywhere is refused, with the same answer whatever lies behind the cut in
/// memory: nothing is read past the end.
#[test]
fn truncation_at_every_byte_is_refused() {
    for vector in PAYLOADS {
        for (_, payload) in vector.forms() {
            // Long vectors repeat one element: their ends are where something can go wrong.
            let cuts = (0..payload.len().min(300))
                .chain(payload.len().saturating_sub(300).max(300)..payload.len());
            for cut in cuts {
                for &revision in Revision::ALL {
                    let inside = decode_as(&payload[..cut], revision);
                    let copy = payload[..cut].to_vec();
                    let alone = decode_as(&copy, revision);
                    assert_eq!(inside, alone, "{} cut at {cut}", vector.id);
                    if decode_as(payload, revision).is_ok() {
                        let refusal = inside.expect_err(vector.id);
                        assert_eq!(refusal.rule(), "W10", "{} cut at {cut}: {refusal}", vector.id);
                        assert_eq!(refusal.offset, cut, "{} cut at {cut}: {refusal}", vector.id);
                    }
                }
            }
        }
    }
}

/// The table's fields are those of the types, so that a field that the manifest appends or reorders
/// is noticed here.
#[test]
fn the_fields_are_those_of_the_contract() {
    for &revision in Revision::ALL {
        let listed: Vec<_> =
            FIELDS.iter().filter(|f| f.since <= revision).map(|f| f.name).collect();
        assert_eq!(listed, revision.fields());
    }
}

/// Ids are unique, and every policy is asked for by some vector.
#[test]
fn the_table_is_sound() {
    let mut ids: Vec<_> =
        PAYLOADS.iter().map(|v| v.id).chain(FRAMES.iter().map(|v| v.id)).collect();
    ids.extend(PLANS.iter().map(|v| v.id).chain(TIMELINES.iter().map(|v| v.id)));
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count);
    for &policy in Policy::ALL {
        let asked = PAYLOADS.iter().flat_map(|vector| vector.readers).any(
            |(_, verdict)| matches!(verdict, Verdict::Declare { policy: p, .. } if *p == policy),
        );
        assert!(asked, "no vector asks for {policy}");
    }
}

/// The compiled-in table is the `golden/` folder beside this crate: same files, same counts, same
/// content hash.
#[test]
fn the_table_is_the_golden_folder() {
    use sha2::{Digest, Sha256};

    let counted = |name: &str| FILES.iter().find(|file| file.name == name).map(|file| file.vectors);
    assert_eq!(counted("payloads.json"), Some(PAYLOADS.len()));
    assert_eq!(counted("frames.json"), Some(FRAMES.len()));
    assert_eq!(counted("readings.json"), Some(TIMELINES.len()));
    // The other vectors of that file are an engine's.
    assert!(counted("discovery.json") > Some(PLANS.len()) && !PLANS.is_empty());
    let mut lines: Vec<_> =
        FILES.iter().map(|file| format!("{} {}\n", file.name, file.sha256)).collect();
    lines.sort_unstable();
    assert_eq!(format!("{:x}", Sha256::digest(lines.concat())), CONTENT_HASH);

    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../golden");
    if !golden.is_dir() {
        eprintln!("NOT RUN: no golden/ beside this crate, so its files are not compared");
        return;
    }
    for file in FILES {
        let bytes = fs::read(golden.join(file.name)).expect(file.name);
        assert_eq!(format!("{:x}", Sha256::digest(bytes)), file.sha256, "{}", file.name);
    }
    let manifest = fs::read(golden.join("manifest.json")).expect("manifest.json");
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
    assert_eq!(manifest["content_hash"], CONTENT_HASH);
    assert_eq!(manifest["files"].as_object().expect("files").len(), FILES.len());
}
