//! The gauge as types: revisions and what each of them says.

use std::fmt;

/// A revision of the contract. Each appends elements to the one before and changes nothing else
/// (rule W11), so that revisions are ordered and a newer reader reads what an older engine sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Revision {
    /// Six elements: the tag, four counts and the rank (rule W2).
    V1,
    /// Eleven elements: those of revision 1 and five more counts (rule W3).
    V2,
}

impl Revision {
    /// The newest revision, the one that [`decode`](crate::decode) reads.
    pub const LATEST: Self = Self::V2;

    /// Every revision, oldest first.
    pub const ALL: &'static [Self] = &[Self::V1, Self::V2];

    /// The revision with that number: 1 or 2.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            _ => None,
        }
    }

    /// Its number, counted from 1.
    pub const fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// How many array elements an engine of this revision sends, the tag included (rule W4).
    pub const fn elements(self) -> u32 {
        match self {
            Self::V1 => 6,
            Self::V2 => 11,
        }
    }

    /// The names of its fields; the field at index `i` is array element `i + 1`.
    pub const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::V1 => &[
                "num_running_reqs",
                "num_waiting_reqs",
                "num_tokens",
                "max_total_num_tokens",
                "attn_dp_rank",
            ],
            Self::V2 => &[
                "num_running_reqs",
                "num_waiting_reqs",
                "num_tokens",
                "max_total_num_tokens",
                "attn_dp_rank",
                "num_waiting_uncached_tokens",
                "num_total_tokens",
                "max_running_requests",
                "total_prefill_uncached_tokens",
                "total_prefill_busy_us",
            ],
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}", self.number())
    }
}

/// One reading of the gauge.
///
/// What revision 2 appended is reachable only through [`rev2`](Self::rev2), which is `None` in a
/// reading of revision 1: an older engine said nothing about it, and nothing is not zero. A zero
/// would tell a router that the engine is idle (rule W9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoadStat {
    /// Requests that are running.
    pub num_running_reqs: u64,
    /// Requests that wait.
    pub num_waiting_reqs: u64,
    /// KV tokens in use.
    pub num_tokens: u64,
    /// KV capacity in tokens, 0 when the engine does not know it: never divide by it unchecked.
    pub max_total_num_tokens: u64,
    /// The rank of the scheduler that published, `None` when it sent nil. A router keys a reading by
    /// the socket that it came from, never by this (rule R3).
    pub attn_dp_rank: Option<u64>,
    /// What revision 2 appended; `None` in a reading of revision 1.
    pub rev2: Option<Rev2>,
}

/// The fields that revision 2 appended (rule W3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rev2 {
    /// Prompt tokens that wait for prefill and missed the cache.
    pub num_waiting_uncached_tokens: u64,
    /// Tokens in use and those of queued requests.
    pub num_total_tokens: u64,
    /// How many requests the scheduler runs at most.
    pub max_running_requests: u64,
    /// Tokens that were prefilled without the cache; only grows while one engine process lives.
    pub total_prefill_uncached_tokens: u64,
    /// Time of prefill steps in microseconds; only grows while one engine process lives.
    pub total_prefill_busy_us: u64,
}

impl LoadStat {
    /// The revision that this reading holds.
    pub const fn revision(&self) -> Revision {
        match self.rev2 {
            None => Revision::V1,
            Some(_) => Revision::V2,
        }
    }

    /// The fields in wire order, the tag left out; `None` is nil. Only as many as the reading's
    /// revision has, named by [`Revision::fields`].
    pub fn fields(&self) -> impl Iterator<Item = Option<u64>> {
        let first = [
            Some(self.num_running_reqs),
            Some(self.num_waiting_reqs),
            Some(self.num_tokens),
            Some(self.max_total_num_tokens),
            self.attn_dp_rank,
        ];
        let appended = self.rev2.map(|rev2| {
            [
                Some(rev2.num_waiting_uncached_tokens),
                Some(rev2.num_total_tokens),
                Some(rev2.max_running_requests),
                Some(rev2.total_prefill_uncached_tokens),
                Some(rev2.total_prefill_busy_us),
            ]
        });
        first.into_iter().chain(appended.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A revision only appends fields, and has one element more than fields: the tag.
    #[test]
    fn revisions_only_append() {
        for pair in Revision::ALL.windows(2) {
            assert!(pair[0] < pair[1]);
            assert!(pair[1].fields().starts_with(pair[0].fields()));
            assert!(pair[1].fields().len() > pair[0].fields().len());
        }
        for &revision in Revision::ALL {
            assert_eq!(revision.fields().len() + 1, revision.elements() as usize);
            assert_eq!(Revision::from_number(revision.number()), Some(revision));
        }
        assert_eq!(Revision::ALL.last(), Some(&Revision::LATEST));
        assert_eq!(Revision::from_number(0), None);
        assert_eq!(Revision::from_number(3), None);
    }
}
