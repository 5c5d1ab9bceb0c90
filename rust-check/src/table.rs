//! The records of the generated vector table.
//!
//! The vectors are the JSON files under `golden/` of the repository that this crate is part of,
//! compiled in, so that a check needs no files. [`PAYLOADS`] and [`FRAMES`] hold them in file order,
//! and [`CONTENT_HASH`] names exactly which ones they are. Most users want
//! [`conformance`](crate::conformance), which runs them all.

use crate::contract::{Choice, Hazard, Policy};
use crate::refusal::Reason;
use crate::stat::Revision;

pub use crate::vectors::{CONTENT_HASH, FIELDS, FILES, FRAMES, PAYLOADS};

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
