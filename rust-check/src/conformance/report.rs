//! What a run found, by rule.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::Deviation;
use crate::contract::Hazard;
use crate::stat::Revision;
use crate::table::{Ruling, CONTENT_HASH};

/// How many failures of one rule a report spells out.
const SHOWN_PER_RULE: usize = 5;

/// How many bytes of a vector are shown.
const SHOWN_BYTES: usize = 96;

/// A case that a decoder got wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The id of the vector.
    pub vector: &'static str,
    /// The name of the spelling; `None` for the vector's own bytes.
    pub spelling: Option<&'static str>,
    /// The rule that the answer breaks.
    pub rule: &'static str,
    /// What a router does that believes the wrong answer, where the vector says so.
    pub hazard: Option<Hazard>,
    /// In which way the answer is wrong.
    pub deviation: Deviation,
    /// What the vector is for.
    pub why: &'static str,
    /// The right answer.
    pub expected: String,
    /// The answer given.
    pub got: String,
    /// What was given: bytes in hexadecimal, cut when they are many, frames divided by `|`; a URL and
    /// its block; or the steps of a timeline up to the one that went wrong.
    pub input: String,
    /// What to call that.
    pub(super) label: &'static str,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.rule, self.vector)?;
        if let Some(spelling) = self.spelling {
            write!(f, " ({spelling})")?;
        }
        match self.hazard {
            None | Some(Hazard::None) => writeln!(f)?,
            Some(hazard) => writeln!(f, " [hazard: {hazard}]")?,
        }
        writeln!(f, "    {}", self.why)?;
        writeln!(f, "    expected {}", self.expected)?;
        writeln!(f, "    got      {}", self.got)?;
        write!(f, "    {:<8} {}", self.label, self.input.replace('\n', "\n             "))
    }
}

/// How the cases of one rule went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answered rightly.
    pub passed: usize,
    /// Answered wrongly.
    pub failed: usize,
    /// Answered wrongly, and excused as a known deviation.
    pub excused: usize,
}

/// What came of a run.
#[derive(Clone, Debug)]
#[must_use = "a report says nothing until it is asserted"]
pub struct Report {
    subject: String,
    rules: BTreeMap<&'static str, Tally>,
    failures: Vec<Failure>,
    problems: Vec<String>,
    accepts_passed: usize,
}

impl Report {
    pub(super) fn new(subject: String) -> Self {
        Self {
            subject,
            rules: BTreeMap::new(),
            failures: Vec::new(),
            problems: Vec::new(),
            accepts_passed: 0,
        }
    }

    pub(super) fn passed(&mut self, rule: &'static str, accepts: bool) {
        self.rules.entry(rule).or_default().passed += 1;
        self.accepts_passed += usize::from(accepts);
    }

    pub(super) fn excused(&mut self, rule: &'static str) {
        self.rules.entry(rule).or_default().excused += 1;
    }

    pub(super) fn failed(&mut self, failure: Failure) {
        self.rules.entry(failure.rule).or_default().failed += 1;
        self.failures.push(failure);
    }

    pub(super) fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// Whether every case passed or is excused, and every declaration is in order.
    pub fn is_conformant(&self) -> bool {
        self.failures.is_empty() && self.problems.is_empty()
    }

    /// The cases that failed, in the order of the vectors.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// What is wrong with the declarations: a policy that is missing, or an excuse that excuses
    /// nothing. Each says what to write.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// The cases by the rule that their right answer rests on.
    pub fn by_rule(&self) -> &BTreeMap<&'static str, Tally> {
        &self.rules
    }

    /// The cases of all rules together.
    pub fn total(&self) -> Tally {
        self.rules.values().fold(Tally::default(), |sum, tally| Tally {
            passed: sum.passed + tally.passed,
            failed: sum.failed + tally.failed,
            excused: sum.excused + tally.excused,
        })
    }

    /// Panics with the whole report unless the decoder conforms.
    ///
    /// # Panics
    ///
    /// That is its purpose: it is the last line of a `#[test]`.
    #[track_caller]
    pub fn assert_conformant(&self) {
        assert!(self.is_conformant(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { passed, failed, excused } = self.total();
        writeln!(
            f,
            "{}: {passed} passed, {failed} failed, {excused} excused (vectors {})",
            self.subject,
            CONTENT_HASH.get(..12).unwrap_or(CONTENT_HASH),
        )?;
        for problem in &self.problems {
            writeln!(f, "\n{problem}")?;
        }
        let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
        for failure in &self.failures {
            let so_far = shown.entry(failure.rule).or_default();
            *so_far += 1;
            if *so_far <= SHOWN_PER_RULE {
                writeln!(f, "\n{failure}")?;
            }
        }
        if failed > 0 && self.accepts_passed == 0 {
            writeln!(
                f,
                "\nnot one answer came out right: is the closure wired to the router at all?"
            )?;
        }
        writeln!(f, "\nrule   passed  failed  excused")?;
        for (rule, tally) in in_order(&self.rules) {
            write!(f, "{rule:<5} {:>7} {:>7} {:>8}", tally.passed, tally.failed, tally.excused)?;
            match tally.failed.checked_sub(SHOWN_PER_RULE) {
                None | Some(0) => writeln!(f)?,
                Some(more) => writeln!(f, "  ({more} more not shown)")?,
            }
        }
        Ok(())
    }
}

/// W2 before W10.
fn in_order<'a>(rules: &BTreeMap<&'a str, Tally>) -> Vec<(&'a str, Tally)> {
    let mut rules: Vec<_> = rules.iter().map(|(&rule, &tally)| (rule, tally)).collect();
    rules.sort_by_key(|(rule, _)| (rule.get(..1), rule.len(), *rule));
    rules
}

/// A right answer in words.
pub(super) fn ruling(ruling: &Ruling) -> String {
    match *ruling {
        Ruling::Accept { revision, values, sequence } => {
            let mut text = format!("accept as {revision}:");
            if let Some(sequence) = sequence {
                let _ = write!(text, " sequence {sequence},");
            }
            for (name, value) in Revision::LATEST.fields().iter().zip(values) {
                let _ = match value {
                    Some(value) => write!(text, " {name} {value},"),
                    None => write!(text, " {name} nil,"),
                };
            }
            text.truncate(text.len() - 1);
            text
        }
        Ruling::Reject { reason, element, frame, .. } => {
            let mut text = format!("reject {reason}");
            if let Some(frame) = frame {
                let _ = write!(text, ", frame {frame}");
            }
            if let Some(element) = element {
                let _ = write!(text, ", element {element}");
            }
            text
        }
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes.iter().take(SHOWN_BYTES) {
        let _ = write!(text, "{byte:02x}");
    }
    if bytes.len() > SHOWN_BYTES {
        let _ = write!(text, "… ({} bytes)", bytes.len());
    }
    text
}
