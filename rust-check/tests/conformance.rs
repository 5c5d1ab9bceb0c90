//! The conformance runs: right decoders pass, and each wrong one is caught by the rule it breaks.

#[path = "support/msgpack.rs"]
mod msgpack;

use loadwire_check::conformance::{self, Deviation, Reading, Rejection, Suite};
use loadwire_check::{decode, decode_as, parse_frames, Choice, Policy, Reason, Revision};
use msgpack::Value;

/// A decoder as a router might have written it, with the mistakes that it makes.
#[derive(Clone, Copy, Default)]
struct Sloppy {
    fixed_length: Option<usize>,
    fixarray_only: bool,
    no_tag_check: bool,
    tag_by_prefix: bool,
    tag_as_bin: bool,
    map_by_name: bool,
    missing_as_zero: bool,
    appended_as_zero: bool,
    floats_truncated: bool,
    negatives_wrapped: bool,
    nil_as_zero: bool,
    bools_as_ints: bool,
    strings_as_zero: bool,
    rank_nil_as_zero: bool,
    signed_counts: bool,
    counts_in_32_bits: bool,
    partial_tail: bool,
    trailing_kept: bool,
    swapped: Option<(usize, usize)>,
    off_by_one: bool,
    panics_when_short: bool,
    scalar_tail_only: bool,
    omitted_rank: bool,
}

impl Sloppy {
    fn decode(&self, bytes: &[u8]) -> Option<Reading> {
        let (mut elements, end) = match msgpack::parse(bytes, 0).ok()? {
            (Value::List(elements), end) => (elements, end),
            (Value::Map(pairs), end) if self.map_by_name => {
                let field = |name: &&str| {
                    let key = Value::Str(name.as_bytes().to_vec());
                    let pair = pairs.chunks_exact(2).find(|pair| pair[0] == key)?;
                    Some(pair[1].clone())
                };
                let fields: Option<Vec<_>> = Revision::V1.fields().iter().map(field).collect();
                let tag = Value::Str(b"LoadStat".to_vec());
                (std::iter::once(tag).chain(fields?).collect(), end)
            }
            _ => return None,
        };
        if end != bytes.len() && !self.trailing_kept {
            return None;
        }
        if self.fixarray_only && bytes[0] & 0xf0 != 0x90 {
            return None;
        }
        if self.fixed_length.is_some_and(|length| elements.len() != length) {
            return None;
        }
        let tag_is_right = match elements.first() {
            Some(Value::Str(tag)) if self.tag_by_prefix => tag.starts_with(b"LoadStat"),
            Some(Value::Str(tag)) => tag == b"LoadStat",
            Some(Value::Bin(tag)) => self.tag_as_bin && tag == b"LoadStat",
            _ => false,
        };
        if !tag_is_right && !self.no_tag_check {
            return None;
        }
        if self.missing_as_zero {
            elements.resize(elements.len().max(6), Value::Int(0));
        }
        if self.appended_as_zero {
            elements.resize(elements.len().max(11), Value::Int(0));
        }
        if self.omitted_rank && elements.len() == 5 {
            elements.push(Value::Nil);
        }
        if self.panics_when_short {
            assert!(elements.len() >= 6, "the array has {} elements", elements.len());
        }
        let read = match elements.len() {
            0..=5 => return None,
            length @ 7..=10 if self.partial_tail => length,
            6..=10 => 6,
            _ => 11,
        };
        if self.scalar_tail_only
            && elements[read..].iter().any(|e| matches!(e, Value::List(_) | Value::Map(_)))
        {
            return None;
        }
        let mut fields: Vec<Option<i128>> = Vec::new();
        for (index, element) in elements[1..read].iter().enumerate() {
            fields.push(match element {
                Value::Int(value) if *value < 0 && self.negatives_wrapped => {
                    Some(i128::from(*value as u64))
                }
                Value::Int(value) if *value < 0 => return None,
                Value::Int(value) if self.signed_counts => Some(i128::from(*value as i64)),
                Value::Int(value) if self.counts_in_32_bits => Some(i128::from(*value as u32)),
                Value::Int(value) => Some(*value),
                Value::Nil if index == 4 && self.rank_nil_as_zero => Some(0),
                Value::Nil if index == 4 => None,
                Value::Nil if self.nil_as_zero => Some(0),
                Value::Float(value) if self.floats_truncated => Some(*value as i128),
                Value::Bool(value) if self.bools_as_ints => Some((*value).into()),
                Value::Str(_) if self.strings_as_zero => Some(0),
                _ => return None,
            });
        }
        if let Some((a, b)) = self.swapped {
            if b < fields.len() {
                fields.swap(a, b);
            }
        }
        if self.off_by_one {
            fields.rotate_left(1);
        }
        let as_count = |field: Option<i128>| -> Option<u64> {
            field.map(|value| value as u64) // every value fits: made of 64 bits above
        };
        if self.signed_counts {
            let signed = |field: &Option<i128>| field.map(|value| value as i64);
            return Some(Reading::from_fields(fields.iter().map(signed)));
        }
        Some(Reading::from_fields(fields.into_iter().map(as_count)))
    }
}

fn with_our_policies<S>(suite: Suite<S>) -> Suite<S>
where
    S: Clone,
{
    Policy::ALL.iter().fold(suite, |suite, &policy| suite.policy(policy, policy.ours()))
}

fn payloads() -> Suite<conformance::Payloads> {
    with_our_policies(conformance::payloads())
}

fn frames() -> Suite<conformance::Frames> {
    with_our_policies(conformance::frames())
}

/// Our own decoder conforms as a reader of every revision, reason codes included.
#[test]
fn our_decoder_conforms() {
    for &revision in Revision::ALL {
        let report = payloads().revision(revision).run(|bytes| decode_as(bytes, revision));
        report.assert_conformant();
        assert!(report.total().passed > 600);
        assert_eq!(report.total().failed, 0);
    }
    let report = frames().run(parse_frames);
    report.assert_conformant();
    assert!(report.total().passed > 50);
}

/// A lenient decoder without a mistake conforms, so that each failure below is the mistake's.
#[test]
fn the_decoder_without_mistakes_conforms() {
    payloads().run(|bytes| Sloppy::default().decode(bytes)).assert_conformant();
}

/// Every wrong decoder is caught, by the rule that it breaks and in the way that it breaks it.
#[test]
fn wrong_decoders_are_caught() {
    use Deviation::{Accepts, Panics, Rejects, WrongReading};
    let right = Sloppy::default();
    let wrong: &[(&str, Sloppy, &str, Deviation)] = &[
        ("fixed six-element tuple", Sloppy { fixed_length: Some(6), ..right }, "W3", Rejects),
        ("fixed eleven-element tuple", Sloppy { fixed_length: Some(11), ..right }, "W2", Rejects),
        ("missing counts as 0", Sloppy { missing_as_zero: true, ..right }, "W9", Accepts),
        ("appended counts as 0", Sloppy { appended_as_zero: true, ..right }, "W2", WrongReading),
        ("no tag check", Sloppy { no_tag_check: true, ..right }, "W1", Accepts),
        ("tag by prefix", Sloppy { tag_by_prefix: true, ..right }, "W1", Accepts),
        ("bin tag, declared refused", Sloppy { tag_as_bin: true, ..right }, "W1", Accepts),
        ("map by name", Sloppy { map_by_name: true, ..right }, "W10", Accepts),
        ("floats truncated", Sloppy { floats_truncated: true, ..right }, "W5", Accepts),
        ("negatives wrapped", Sloppy { negatives_wrapped: true, ..right }, "W5", Accepts),
        ("nil as 0", Sloppy { nil_as_zero: true, ..right }, "W5", Accepts),
        ("nil rank as 0", Sloppy { rank_nil_as_zero: true, ..right }, "W4", WrongReading),
        ("bools as ints", Sloppy { bools_as_ints: true, ..right }, "W5", Accepts),
        ("strings as 0", Sloppy { strings_as_zero: true, ..right }, "W5", Accepts),
        ("counts as i64", Sloppy { signed_counts: true, ..right }, "W5", WrongReading),
        ("counts cut to 32 bits", Sloppy { counts_in_32_bits: true, ..right }, "W5", WrongReading),
        ("tail read, declared older", Sloppy { partial_tail: true, ..right }, "W12", WrongReading),
        ("trailing bytes kept", Sloppy { trailing_kept: true, ..right }, "W6", Accepts),
        ("rank omitted, declared refused", Sloppy { omitted_rank: true, ..right }, "W9", Accepts),
        ("first slots swapped", Sloppy { swapped: Some((0, 1)), ..right }, "W2", WrongReading),
        ("last slots swapped", Sloppy { swapped: Some((8, 9)), ..right }, "W3", WrongReading),
        ("off by one slot", Sloppy { off_by_one: true, ..right }, "W2", WrongReading),
        ("panics when short", Sloppy { panics_when_short: true, ..right }, "W9", Panics),
        ("fixarray header only", Sloppy { fixarray_only: true, ..right }, "W7", Rejects),
        ("no nested tail", Sloppy { scalar_tail_only: true, ..right }, "W8", Rejects),
    ];
    let mut missed = Vec::new();
    for (name, decoder, rule, deviation) in wrong {
        let report = payloads().run(|bytes| decoder.decode(bytes));
        let caught =
            report.failures().iter().find(|f| f.rule == *rule && f.deviation == *deviation);
        let by = caught.map_or("nothing", |failure| failure.vector);
        println!("{name:32} {:4} failures, {rule:4} {deviation:?} by {by}", report.total().failed);
        if caught.is_none() {
            missed.push(format!("{name}: no {deviation:?} of {rule}\n{report}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// Swapping any two slots, or losing any one, is caught.
#[test]
fn no_two_slots_can_be_swapped() {
    for a in 0..10 {
        for b in a + 1..10 {
            let decoder = Sloppy { swapped: Some((a, b)), ..Sloppy::default() };
            let report = payloads().run(|bytes| decoder.decode(bytes));
            assert!(!report.is_conformant(), "slots {a} and {b}");
        }
    }
}

/// Every wrong parser of messages is caught by the rule that it breaks.
#[test]
fn wrong_parsers_are_caught() {
    type Parser = fn(&[&[u8]]) -> Option<Reading>;
    fn read(sequence: i128, payload: &[u8]) -> Option<Reading> {
        decode(payload).ok().map(|stat| Reading::from(stat).sequence(sequence as i64))
    }
    fn number(bytes: &[u8]) -> Option<i128> {
        Some(i64::from_be_bytes(bytes.try_into().ok()?).into()).filter(|number| *number >= 0)
    }
    let wrong: &[(&str, Parser, &str)] = &[
        (
            "no topic check",
            |f| {
                if f.len() == 3 {
                    read(number(f[1])?, f[2])
                } else {
                    None
                }
            },
            "F2",
        ),
        (
            "topic by prefix",
            |f| match f {
                [topic, seq, payload] if topic.starts_with(b"load") => read(number(seq)?, payload),
                _ => None,
            },
            "F2",
        ),
        (
            "more frames than three",
            |f| match f {
                [topic, seq, payload, ..] if topic == b"load" => read(number(seq)?, payload),
                _ => None,
            },
            "F1",
        ),
        (
            "no topic frame needed",
            |f| match f {
                [b"load", seq, payload] | [seq, payload] => read(number(seq)?, payload),
                _ => None,
            },
            "F1",
        ),
        (
            "little-endian sequence",
            |f| match f {
                [b"load", seq, payload] => {
                    let seq = i64::from_le_bytes((*seq).try_into().ok()?);
                    read(seq.into(), payload)
                }
                _ => None,
            },
            "F4",
        ),
        (
            "unsigned sequence",
            |f| match f {
                [b"load", seq, payload] => {
                    let seq = u64::from_be_bytes((*seq).try_into().ok()?);
                    read(seq.into(), payload)
                }
                _ => None,
            },
            "F3",
        ),
        (
            "short sequence padded",
            |f| match f {
                [b"load", seq, payload] if seq.len() <= 8 => {
                    let mut padded = [0; 8];
                    padded[8 - seq.len()..].copy_from_slice(seq);
                    read(number(&padded)?, payload)
                }
                _ => None,
            },
            "F3",
        ),
        (
            "first 8 bytes of the sequence",
            |f| match f {
                [b"load", seq, payload] => read(number(seq.get(..8)?)?, payload),
                _ => None,
            },
            "F3",
        ),
    ];
    for (name, parser, rule) in wrong {
        let report = frames().run(parser);
        let caught = report.failures().iter().any(|failure| failure.rule == *rule);
        assert!(caught, "{name}: nothing of {rule}\n{report}");
    }
}

/// A router that ignores the sequence says so, and is still asked to refuse one that is none.
#[test]
fn a_parser_may_ignore_the_sequence() {
    let parse = |message: &[&[u8]]| parse_frames(message).map(|message| message.stat);
    let undeclared = frames().run(parse);
    assert!(undeclared.failures().iter().all(|failure| failure.got == "accept no sequence"));
    assert!(!undeclared.is_conformant());
    frames().without_sequence().run(parse).assert_conformant();
}

/// A policy that is not declared is a problem that says what to add, judged by what the decoder
/// does, and nothing else fails.
#[test]
fn an_undeclared_policy_says_what_to_declare() {
    let report = conformance::payloads().run(decode);
    assert_eq!(report.failures(), []);
    assert_eq!(report.problems().len(), Policy::ALL.len());
    for &policy in Policy::ALL {
        let choice = format!("{:?}", policy.ours());
        let advice = format!(".policy(Policy::{policy}, Choice::{choice})");
        assert!(report.problems().iter().any(|problem| problem.contains(&advice)), "{advice}");
    }
}

/// A declared policy is held: the other answer to it is a failure, and the same answer is none.
#[test]
fn a_declared_policy_is_held() {
    let lenient = Sloppy {
        trailing_kept: true,
        tag_as_bin: true,
        omitted_rank: true,
        partial_tail: true,
        ..Sloppy::default()
    };
    payloads()
        .policy(Policy::TrailingBytes, Choice::Accept)
        .policy(Policy::TagAsBin, Choice::Accept)
        .policy(Policy::OmittedRank, Choice::Accept)
        .policy(Policy::PartialTail, Choice::Partial)
        .run(|bytes| lenient.decode(bytes))
        .assert_conformant();
    let report = payloads().policy(Policy::TrailingBytes, Choice::Accept).run(decode);
    assert!(!report.failures().is_empty());
    assert!(report.failures().iter().all(|failure| failure.deviation == Deviation::Rejects));
}

/// An answer that a policy does not take is a problem that lists those it does.
#[test]
fn an_impossible_choice_is_a_problem() {
    let report = payloads().policy(Policy::PartialTail, Choice::Reject).run(decode);
    assert_eq!(
        report.problems(),
        ["policy PartialTail has no answer reject; it takes Choice::Older or Choice::Partial"]
    );
}

/// A known deviation is excused, at a rule or at one vector, and the rest is still judged.
#[test]
fn a_known_deviation_is_excused() {
    let decoder = Sloppy { floats_truncated: true, ..Sloppy::default() };
    let run = |suite: Suite<conformance::Payloads>| suite.run(|bytes| decoder.decode(bytes));
    let report =
        run(payloads().known_deviation("W5", Deviation::Accepts, "fixed in the next release"));
    report.assert_conformant();
    assert!(report.total().excused > 0);
    assert_eq!(report.by_rule()["W5"].excused, report.total().excused);

    let every = run(payloads());
    let one = every.failures()[0].vector;
    let rest = run(payloads().known_deviation(one, Deviation::Accepts, "only this one"));
    assert!(rest.total().excused > 0);
    assert!(rest.failures().len() < every.failures().len());
    assert!(rest.failures().iter().all(|failure| failure.vector != one));
}

/// An excuse fails when the deviation is gone, when it fails in another way, when nothing has that
/// name, and when it gives no reason.
#[test]
fn an_excuse_that_excuses_nothing_fails() {
    let gone = payloads().known_deviation("W5", Deviation::Accepts, "floats").run(decode);
    assert!(gone.problems()[0].contains("is gone"), "{gone}");

    let decoder = Sloppy { floats_truncated: true, ..Sloppy::default() };
    let other = payloads()
        .known_deviation("W5", Deviation::Panics, "floats")
        .run(|bytes| decoder.decode(bytes));
    assert!(!other.problems().is_empty() && !other.failures().is_empty(), "{other}");

    let unknown = payloads().known_deviation("W99", Deviation::Accepts, "floats").run(decode);
    assert!(unknown.problems()[0].contains("no vector and no rule"), "{unknown}");

    let silent = payloads()
        .known_deviation("W5", Deviation::Accepts, " ")
        .run(|bytes| decoder.decode(bytes));
    assert!(silent.problems()[0].contains("gives no reason"), "{silent}");
}

/// A reason code is checked when a decoder gives one, and asked of none that does not.
#[test]
fn reason_codes_are_optional() {
    payloads().run(|bytes| decode(bytes).map_err(|_| ())).assert_conformant();
    payloads().run(|bytes| decode(bytes).map_err(|error| error.to_string())).assert_conformant();
    let report = payloads().run(|bytes| decode(bytes).map_err(|_| Reason::BadTag));
    assert!(!report.is_conformant());
    assert!(report.failures().iter().all(|f| f.deviation == Deviation::WrongReason), "{report}");
    let stated = |error: loadwire_check::Refusal| Rejection::new("my text").reason(error.reason);
    payloads().run(|bytes| decode(bytes).map_err(stated)).assert_conformant();
}

/// A panic is its vector's failure, with the message and the place, and the run goes on.
#[test]
fn a_panic_is_one_failure() {
    let report = payloads().run(|bytes| {
        assert!(!bytes.is_empty(), "cannot decode nothing");
        decode(bytes)
    });
    let [failure] = report.failures() else { panic!("{report}") };
    assert_eq!(failure.deviation, Deviation::Panics);
    assert!(failure.got.starts_with("a panic: cannot decode nothing (at "), "{}", failure.got);
    assert!(failure.got.contains(file!()), "{}", failure.got);
}

/// The report names vector, rule, hazard, both answers and the bytes, and counts by rule.
#[test]
fn the_report_reads_well() {
    let decoder = Sloppy { missing_as_zero: true, bools_as_ints: true, ..Sloppy::default() };
    let report = payloads().run(|bytes| decoder.decode(bytes));
    let text = report.to_string();
    let failure = &report.failures()[0];
    for part in [failure.vector, failure.rule, failure.why, &failure.expected, &failure.got] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(text.contains("[hazard: attracts-all]"), "{text}");
    assert!(text.contains(&failure.input), "{text}");
    assert!(text.contains("more not shown"), "{text}");
    let rules: Vec<_> =
        text.lines().skip_while(|line| !line.starts_with("rule ")).skip(1).collect();
    assert!(rules[0].starts_with("W1 ") && rules.last().unwrap().starts_with("W12 "), "{text}");

    let nothing = payloads().run(|_| None::<Reading>).to_string();
    assert!(nothing.contains("wired to the router at all"), "{nothing}");
}

/// `assert_conformant` fails a test with the whole report.
#[test]
#[should_panic(expected = "as a reader of revision 2")]
fn assert_conformant_panics_with_the_report() {
    payloads().run(|_| None::<Reading>).assert_conformant();
}
