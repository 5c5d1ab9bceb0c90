//! Runs every vector through a router's own decoder and reports by rule.
//!
//! | run | what it checks |
//! |---|---|
//! | [`payloads`] | a decoder of the payload |
//! | [`frames`] | a parser of the whole message |
//! | [`plans`] | a function from a worker's `/server_info` to the endpoints that are dialled |
//! | [`readings`] | a table of readings: freshness, sums over ranks, removal, bad messages |
//!
//! All are builders: say what your router is, hand in a closure, and assert.
//!
//! ```
//! use loadwire_check::conformance::{self, Reading};
//! use loadwire_check::{Choice, Policy, Revision};
//! # mod router {
//! #     pub struct Load { pub running: u64, pub waiting: u64, pub tokens: u64, pub capacity: u64, pub rank: Option<u64> }
//! #     pub fn parse(bytes: &[u8]) -> Result<Load, String> {
//! #         use loadwire_check::{decode_as, Revision};
//! #         let stat = decode_as(bytes, Revision::V1).map_err(|error| error.to_string())?;
//! #         Ok(Load { running: stat.num_running_reqs, waiting: stat.num_waiting_reqs, tokens: stat.num_tokens, capacity: stat.max_total_num_tokens, rank: stat.attn_dp_rank })
//! #     }
//! # }
//!
//! conformance::payloads()
//!     .revision(Revision::V1)
//!     .policy(Policy::TrailingBytes, Choice::Reject)
//!     .policy(Policy::OmittedRank, Choice::Reject)
//!     .policy(Policy::TagAsBin, Choice::Reject)
//!     .policy(Policy::CountAboveI64, Choice::Accept)
//!     .run(|bytes| {
//!         router::parse(bytes).map(|load| {
//!             Reading::new()
//!                 .num_running_reqs(load.running)
//!                 .num_waiting_reqs(load.waiting)
//!                 .num_tokens(load.tokens)
//!                 .max_total_num_tokens(load.capacity)
//!                 .attn_dp_rank(load.rank)
//!         })
//!     })
//!     .assert_conformant();
//! ```
//!
//! A policy that is not declared is a failure that says what to write, so nobody has to know them in
//! advance. A panic in the decoder fails the vector that caused it, and the run goes on. What ends the
//! process cannot be caught: a test that dies without a report has met a vector that nests too
//! deeply for a recursive decoder, or one whose announced length it tried to allocate.

mod answer;
mod known;
mod load;
mod panics;
mod plans;
mod readings;
mod report;

use std::collections::BTreeMap;
use std::marker::PhantomData;

pub use answer::{Answer, Count, Reading, Rejection};
pub use load::Load;
pub use plans::{plans, Dialled, NotDialled, PlanAnswer, PlanSuite, Question, UrlCredentials};
pub use readings::{readings, Table, TableSuite};
pub use report::{Failure, Report, Tally};

use known::{known_deviation, Deviations};

use crate::contract::{Choice, Hazard, Policy};
use crate::stat::Revision;
use crate::table::{for_reader, Ruling, Verdict, FRAMES, PAYLOADS};

/// The payload vectors, for a decoder of frame 2 alone.
pub fn payloads() -> Suite<Payloads> {
    Suite::new()
}

/// The frame vectors, for a parser of whole messages.
pub fn frames() -> Suite<Frames> {
    Suite::new()
}

/// Marks a [`Suite`] of payload vectors.
#[derive(Clone, Copy, Debug)]
pub enum Payloads {}

/// Marks a [`Suite`] of frame vectors.
#[derive(Clone, Copy, Debug)]
pub enum Frames {}

/// In which way a decoder departs from the right answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Deviation {
    /// It accepts what it must refuse.
    Accepts,
    /// It refuses what it must accept.
    Rejects,
    /// It accepts, with another reading.
    WrongReading,
    /// It refuses, and gives another reason code.
    WrongReason,
    /// It panics.
    Panics,
    /// It dials something else (only [`plans`]).
    WrongPlan,
    /// It has a load for a worker whose load is unknown (only [`readings`]).
    Knows,
    /// It has no load for a worker whose load is known (only [`readings`]).
    Forgets,
    /// It has another load (only [`readings`]).
    WrongLoad,
    /// It ends the subscription (only [`readings`]).
    Ends,
}

/// What a router declares about itself, and then the run.
#[derive(Clone, Debug)]
pub struct Suite<Subject> {
    revision: Revision,
    policies: BTreeMap<Policy, Choice>,
    known: Deviations,
    sequence_is_read: bool,
    subject: PhantomData<Subject>,
}

/// One form of one vector.
struct Case {
    vector: &'static str,
    spelling: Option<&'static str>,
    rule: &'static str,
    why: &'static str,
    frames: &'static [&'static [u8]],
    payload: &'static [u8],
    readers: &'static [(Revision, Verdict)],
}

impl Case {
    fn hex(&self) -> String {
        let frames: Vec<String> = match self.frames {
            [] => vec![report::hex(self.payload)],
            frames => frames.iter().map(|frame| report::hex(frame)).collect(),
        };
        frames.join(" | ")
    }
}

impl Suite<Payloads> {
    /// Runs every payload vector in every spelling through `decode`.
    ///
    /// The closure gets the bytes and gives an `Option` or a `Result` of anything that is a
    /// [`Reading`]; see [`Answer`].
    pub fn run<A: Into<Answer>>(&self, mut decode: impl FnMut(&'static [u8]) -> A) -> Report {
        let cases = PAYLOADS.iter().flat_map(|vector| {
            vector.forms().map(move |(spelling, payload)| Case {
                vector: vector.id,
                spelling,
                rule: vector.rule,
                why: vector.why,
                frames: &[],
                payload,
                readers: vector.readers,
            })
        });
        self.judge("payloads", cases, |case| decode(case.payload).into())
    }
}

impl Suite<Frames> {
    /// Declares that the router does not read the sequence at all, so that its readings need none.
    /// It must refuse a frame 1 that is no sequence all the same (rule F3).
    #[must_use]
    pub fn without_sequence(mut self) -> Self {
        self.sequence_is_read = false;
        self
    }

    /// Runs every frame vector through `parse`.
    ///
    /// The closure gets the frames of one message and gives an `Option` or a `Result` of anything
    /// that is a [`Reading`] with its [`sequence`](Reading::sequence); see [`Answer`].
    pub fn run<A: Into<Answer>>(
        &self,
        mut parse: impl FnMut(&'static [&'static [u8]]) -> A,
    ) -> Report {
        let cases = FRAMES.iter().map(|vector| Case {
            vector: vector.id,
            spelling: None,
            rule: vector.rule,
            why: vector.why,
            frames: vector.frames,
            payload: &[],
            readers: vector.readers,
        });
        self.judge("frames", cases, |case| parse(case.frames).into())
    }
}

impl<Subject> Suite<Subject> {
    fn new() -> Self {
        Self {
            revision: Revision::LATEST,
            policies: BTreeMap::new(),
            known: Deviations::default(),
            sequence_is_read: true,
            subject: PhantomData,
        }
    }

    /// The revision that the router reads; the newest one unless said.
    #[must_use]
    pub fn revision(mut self, revision: Revision) -> Self {
        self.revision = revision;
        self
    }

    /// Declares how the router answers where the contract leaves a choice.
    #[must_use]
    pub fn policy(mut self, policy: Policy, choice: Choice) -> Self {
        self.policies.insert(policy, choice);
        self
    }

    known_deviation!();

    fn judge(
        &self,
        subject: &'static str,
        cases: impl Iterator<Item = Case>,
        mut ask: impl FnMut(&Case) -> Answer,
    ) -> Report {
        let mut report = Report::new(format!("{subject} as a reader of {}", self.revision));
        let mut undeclared: BTreeMap<Policy, Undeclared> = BTreeMap::new();
        let mut known = self.known.watch();
        for case in cases {
            let Some(verdict) = for_reader(case.readers, self.revision) else {
                continue;
            };
            let answer = panics::caught(|| ask(&case));
            let ruling = match verdict.ruling(|policy| self.policies.get(&policy).copied()) {
                Some(ruling) => ruling,
                None => {
                    if let Verdict::Declare { policy, outcomes } = verdict {
                        undeclared.entry(*policy).or_default().note(outcomes, |ruling| {
                            fault(ruling, &answer, self.sequence_is_read).is_none()
                        });
                    }
                    continue;
                }
            };
            let (rule, hazard) = match *ruling {
                Ruling::Reject { rule, hazard, .. } => (rule, Some(hazard)),
                Ruling::Accept { .. } => (case.rule, None),
            };
            known.ran(rule, case.vector);
            let Some(fault) = fault(ruling, &answer, self.sequence_is_read) else {
                report.passed(rule, matches!(ruling, Ruling::Accept { .. }));
                continue;
            };
            if known.excuse(rule, case.vector, fault.deviation) {
                report.excused(rule);
            } else {
                report.failed(failure(&case, rule, hazard, fault));
            }
        }
        if report.by_rule().is_empty() {
            // Never pass because nothing ran.
            report.problem(format!("there is no vector for a reader of {}", self.revision));
        }
        self.check_declarations(&mut report, &undeclared);
        known.finish(&mut report);
        report
    }

    fn check_declarations(&self, report: &mut Report, undeclared: &BTreeMap<Policy, Undeclared>) {
        for (policy, choice) in &self.policies {
            if !policy.choices().contains(choice) {
                report.problem(format!(
                    "policy {policy} has no answer {choice}; it takes {}",
                    listed(policy.choices())
                ));
            }
        }
        for (policy, seen) in undeclared {
            if self.policies.contains_key(policy) {
                continue; // declared with an answer that it does not take: said above
            }
            let advice = match seen.fitting() {
                Some(choice) => format!(
                    "this decoder answers {choice:?}, so if that is what you want, add \
                     .policy(Policy::{policy}, Choice::{})",
                    choice.ident()
                ),
                None => format!(
                    "this decoder gives no consistent answer; declare one with \
                     .policy(Policy::{policy}, ...): {}",
                    listed(policy.choices())
                ),
            };
            report.problem(format!(
                "policy {policy} is not declared, and {} case(s) ask for it: {advice}",
                seen.cases
            ));
        }
    }
}

/// What was seen of one policy that was not declared.
#[derive(Default)]
struct Undeclared {
    cases: usize,
    fits: BTreeMap<Choice, usize>,
}

impl Undeclared {
    fn note(&mut self, outcomes: &[(Choice, Ruling)], is_right: impl Fn(&Ruling) -> bool) {
        self.cases += 1;
        for (choice, ruling) in outcomes {
            if is_right(ruling) {
                *self.fits.entry(*choice).or_default() += 1;
            }
        }
    }

    /// The answer that every case agrees with.
    fn fitting(&self) -> Option<Choice> {
        self.fits.iter().find(|(_, &cases)| cases == self.cases).map(|(&choice, _)| choice)
    }
}

fn listed(choices: &[Choice]) -> String {
    let choices: Vec<String> =
        choices.iter().map(|choice| format!("Choice::{}", choice.ident())).collect();
    choices.join(" or ")
}

/// How an answer departs from the right one.
struct Fault {
    deviation: Deviation,
    expected: String,
    got: String,
}

fn fault(
    ruling: &Ruling,
    answer: &Result<Answer, panics::Caught>,
    sequence_is_read: bool,
) -> Option<Fault> {
    let fault = |deviation, expected: String, got: String| Some(Fault { deviation, expected, got });
    match (ruling, answer) {
        (ruling, Err(panic)) => {
            fault(Deviation::Panics, report::ruling(ruling), format!("a panic: {panic}"))
        }
        (Ruling::Reject { .. }, Ok(Answer::Accept(reading))) => {
            fault(Deviation::Accepts, report::ruling(ruling), format!("accept {reading}"))
        }
        (Ruling::Accept { .. }, Ok(Answer::Reject(rejection))) => {
            fault(Deviation::Rejects, report::ruling(ruling), format!("reject {rejection}"))
        }
        (Ruling::Reject { reason, .. }, Ok(Answer::Reject(rejection))) => match rejection.reason {
            Some(other) if other != *reason => {
                fault(Deviation::WrongReason, report::ruling(ruling), format!("reject {rejection}"))
            }
            _ => None,
        },
        (&Ruling::Accept { revision, values, sequence }, Ok(Answer::Accept(reading))) => {
            let sequence = if sequence_is_read { sequence } else { None };
            let (expected, got) = reading.differences(revision, values, sequence)?;
            fault(Deviation::WrongReading, format!("accept {expected}"), format!("accept {got}"))
        }
    }
}

fn failure(case: &Case, rule: &'static str, hazard: Option<Hazard>, fault: Fault) -> Failure {
    Failure {
        vector: case.vector,
        spelling: case.spelling,
        rule,
        hazard,
        deviation: fault.deviation,
        why: case.why,
        expected: fault.expected,
        got: fault.got,
        label: "bytes",
        input: case.hex(),
    }
}
