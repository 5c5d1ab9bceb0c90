//! The records of the generated vector table.
//!
//! The vectors are the JSON files under `golden/` of the repository that this crate is part of,
//! compiled in, so that a check needs no files. [`PAYLOADS`], [`FRAMES`], [`PLANS`] and [`TIMELINES`]
//! hold them in file order, and [`CONTENT_HASH`] names exactly which ones they are. Most users want
//! [`conformance`](crate::conformance), which runs them all.

use std::time::Duration;

use crate::contract::{Choice, Hazard, Policy};
use crate::discovery::{KvEvents, NoPlanReason};
use crate::refusal::Reason;
use crate::stat::Revision;

pub use crate::vectors::{CONTENT_HASH, FIELDS, FILES, FRAMES, PAYLOADS, PLANS, TIMELINES};

/// A field of the contract, in wire order; the field at index `i` is array element `i + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its type: `count`, or `count-or-nil`.
    pub kind: &'static str,
    /// What it counts.
    pub unit: &'static str,
    /// The revision that appended it.
    pub since: Revision,
}

/// One of the files that the table was generated from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name under `golden/`.
    pub name: &'static str,
    /// The SHA-256 of its bytes, in hexadecimal.
    pub sha256: &'static str,
    /// How many vectors it holds.
    pub vectors: usize,
}

/// One payload, and what each side owes for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadVector {
    /// A slug that never changes and is never reused.
    pub id: &'static str,
    /// The contract rule that the vector proves.
    pub rule: &'static str,
    /// Its family, for example `golden`, `spelling` or `reject`.
    pub kind: &'static str,
    /// The revision that brought the vector.
    pub since: Revision,
    /// What it is for, in one sentence.
    pub why: &'static str,
    /// The bytes under test; the canonical form where an engine may send them.
    pub payload: &'static [u8],
    /// Other legal forms of the same value, by name. Every verdict holds for them as well.
    pub spellings: &'static [(&'static str, &'static [u8])],
    /// The revision whose engines may send [`payload`](Self::payload); `None`: no engine may.
    pub engine: Option<Revision>,
    /// The verdict by revision of the reader.
    pub readers: &'static [(Revision, Verdict)],
}

/// One message, frame by frame; the fields are those of [`PayloadVector`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameVector {
    /// A slug that never changes and is never reused.
    pub id: &'static str,
    /// The contract rule that the vector proves.
    pub rule: &'static str,
    /// Its family.
    pub kind: &'static str,
    /// The revision that brought the vector.
    pub since: Revision,
    /// What it is for, in one sentence.
    pub why: &'static str,
    /// The frames under test.
    pub frames: &'static [&'static [u8]],
    /// The revision whose engines may send these frames; `None`: no engine may.
    pub engine: Option<Revision>,
    /// The verdict by revision of the reader.
    pub readers: &'static [(Revision, Verdict)],
}

/// What a reader owes for a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is one right answer.
    Ruled(Ruling),
    /// Real routers differ, and the answer is the one that the router declares.
    Declare {
        /// What is to be declared.
        policy: Policy,
        /// The right answer by declaration.
        outcomes: &'static [(Choice, Ruling)],
    },
}

/// The right answer to a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The bytes are this reading.
    Accept {
        /// The revision that is read.
        revision: Revision,
        /// The fields that are read, in wire order, named by [`FIELDS`]; `None` is nil. A field that
        /// is not listed is missing, which is not zero.
        values: &'static [Option<u64>],
        /// For frames, the sequence.
        sequence: Option<u64>,
    },
    /// The bytes are no reading.
    Reject {
        /// The rule that they break.
        rule: &'static str,
        /// The reason code.
        reason: Reason,
        /// The byte at fault in the vector's own form; other spellings put it elsewhere.
        offset: Option<usize>,
        /// The array element at fault.
        element: Option<u32>,
        /// For frames, the frame at fault.
        frame: Option<u8>,
        /// What a router does that believes the wrong decoding.
        hazard: Hazard,
    },
}

impl Verdict {
    /// The right answer for a router that declares `choice` for the policy, if it comes to that.
    /// `None`: it comes to that, and the policy has no such answer.
    pub fn ruling(&self, choice: impl FnOnce(Policy) -> Option<Choice>) -> Option<&Ruling> {
        match self {
            Self::Ruled(ruling) => Some(ruling),
            Self::Declare { policy, outcomes } => {
                let choice = choice(*policy)?;
                outcomes.iter().find(|(answer, _)| *answer == choice).map(|(_, ruling)| ruling)
            }
        }
    }
}

pub(crate) fn for_reader(
    readers: &'static [(Revision, Verdict)],
    revision: Revision,
) -> Option<&'static Verdict> {
    readers.iter().find(|(reader, _)| *reader == revision).map(|(_, verdict)| verdict)
}

impl PayloadVector {
    /// What a reader of that revision owes.
    pub fn verdict(&self, revision: Revision) -> Option<&'static Verdict> {
        for_reader(self.readers, revision)
    }

    /// Every form of the bytes: the vector's own, which has no name, and the other spellings.
    pub fn forms(&self) -> impl Iterator<Item = (Option<&'static str>, &'static [u8])> {
        let own = std::iter::once((None, self.payload));
        own.chain(self.spellings.iter().map(|&(name, bytes)| (Some(name), bytes)))
    }
}

impl FrameVector {
    /// What a reader of that revision owes.
    pub fn verdict(&self, revision: Revision) -> Option<&'static Verdict> {
        for_reader(self.readers, revision)
    }
}

/// A worker's URL and its `kv_events` value, and what a router dials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanVector {
    /// A slug that never changes and is never reused.
    pub id: &'static str,
    /// The contract rule that the vector proves.
    pub rule: &'static str,
    /// What it is for, in one sentence.
    pub why: &'static str,
    /// The URL that the router sends requests to.
    pub worker_url: &'static str,
    /// The value of `kv_events`, as JSON text.
    pub json: &'static str,
    /// The same, parsed; `None` is null.
    pub block: Option<KvEvents<'static>>,
    /// What is owed.
    pub expect: PlanVerdict,
}

/// What a router owes for a [`PlanVector`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanVerdict {
    /// There is one right answer.
    Ruled(PlanRuling),
    /// The URL has a user in front of its host, and real routers differ.
    Credentials {
        /// The right answer for a router that refuses such URLs.
        refuse: PlanRuling,
        /// The right answer for one that dials their host.
        dial: PlanRuling,
    },
}

/// The right answer to a [`PlanVector`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanRuling {
    /// One endpoint for each rank from 0.
    Dial {
        /// The endpoints.
        endpoints: &'static [&'static str],
        /// The ranks behind them that have no port.
        skipped: &'static [u64],
    },
    /// Nothing is dialled.
    Nothing(NoPlanReason),
}

/// What happens to one fresh router over time, and what it knows at each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// A slug that never changes and is never reused.
    pub id: &'static str,
    /// The contract rule that the timeline proves.
    pub rule: &'static str,
    /// The oldest revision whose readers owe this.
    pub since: Revision,
    /// What it is for, in one sentence.
    pub why: &'static str,
    /// For how long a reading is fresh, inclusive.
    pub window: Duration,
    /// The events in order.
    pub steps: &'static [Step],
}

/// One event, and what the router knows of each worker behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The time on a monotonic clock.
    pub at: Duration,
    /// The event.
    pub happens: Event,
    /// By worker, for every one that the timeline has named so far.
    pub expect: &'static [(&'static str, View)],
}

/// What happens at a [`Step`]. A worker is named by its URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The router learns what a worker advertises, now or anew; one it did not have is added.
    Advertise {
        /// The worker.
        worker: &'static str,
        /// Rank `r` is the socket at `base + r`.
        base: u16,
        /// How many ranks there are.
        dp_size: u32,
    },
    /// The router learns that a worker advertises no load; one it did not have is added.
    Withdraw {
        /// The worker.
        worker: &'static str,
    },
    /// The router is told that a worker is gone.
    Remove {
        /// The worker.
        worker: &'static str,
    },
    /// The worker's engine is a new process on the same ports. The router is not told.
    Restart {
        /// The worker.
        worker: &'static str,
    },
    /// A message arrives on the socket of one rank.
    Receive {
        /// The worker.
        worker: &'static str,
        /// The rank that the socket was opened for.
        rank: u32,
        /// The frames.
        frames: &'static [&'static [u8]],
        /// The vector that a bad message is from, or `None` for a good one.
        vector: Option<&'static str>,
    },
    /// Only time has passed.
    Silence,
}

/// What a router knows of a worker's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The sums over its ranks, of every count that all of them sent: the [`FIELDS`] in order, the
    /// rank left out. A reader of an older revision knows the fields of its own among them.
    Known(&'static [u128]),
    /// Nothing; the router counts for itself (rule C4).
    Unknown {
        /// Why. A router need not tell reasons apart.
        reason: &'static str,
        /// The ranks to blame.
        ranks: &'static [u32],
    },
}
