//! What the contract leaves open, and what is at stake when a decoder gets it wrong.

use std::fmt;

/// A question that real routers answer differently and neither answer is wrong. Each router
/// declares its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// Bytes behind the array: [`Accept`](Choice::Accept) or [`Reject`](Choice::Reject).
    TrailingBytes,
    /// Five elements, the rank left out: [`Accept`](Choice::Accept) as nil, or
    /// [`Reject`](Choice::Reject).
    OmittedRank,
    /// The tag as msgpack binary data: [`Accept`](Choice::Accept) or [`Reject`](Choice::Reject).
    TagAsBin,
    /// Counts above 2^63-1: [`Accept`](Choice::Accept) or [`Reject`](Choice::Reject).
    CountAboveI64,
    /// 7 to 10 elements: as the [`Older`](Choice::Older) revision, or with the
    /// [`Partial`](Choice::Partial) tail as well.
    PartialTail,
    /// Nil in an appended count: [`Accept`](Choice::Accept) as nil (never as zero), or
    /// [`Reject`](Choice::Reject).
    NilTail,
}

impl Policy {
    /// Every policy.
    pub const ALL: &'static [Self] = &[
        Self::TrailingBytes,
        Self::OmittedRank,
        Self::TagAsBin,
        Self::CountAboveI64,
        Self::PartialTail,
        Self::NilTail,
    ];

    /// Its name in vectors, reports and the testee protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TrailingBytes => "TrailingBytes",
            Self::OmittedRank => "OmittedRank",
            Self::TagAsBin => "TagAsBin",
            Self::CountAboveI64 => "CountAboveI64",
            Self::PartialTail => "PartialTail",
            Self::NilTail => "NilTail",
        }
    }

    /// The policy with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|policy| policy.name() == name)
    }

    /// The answers that it takes.
    pub const fn choices(self) -> &'static [Choice] {
        match self {
            Self::PartialTail => &[Choice::Older, Choice::Partial],
            _ => &[Choice::Accept, Choice::Reject],
        }
    }

    /// How this crate's own [`decode`](crate::decode) answers.
    pub const fn ours(self) -> Choice {
        match self {
            Self::TrailingBytes | Self::OmittedRank | Self::TagAsBin | Self::NilTail => {
                Choice::Reject
            }
            Self::CountAboveI64 => Choice::Accept,
            Self::PartialTail => Choice::Older,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A router's answer to a [`Policy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Choice {
    /// Such bytes are a reading.
    Accept,
    /// Such bytes are refused.
    Reject,
    /// Such bytes are a reading of the older revision, with unknown elements behind it.
    Older,
    /// Such bytes are a reading, and the part of the newer revision that is there is read too.
    Partial,
}

impl Choice {
    /// Its name in vectors and in the testee protocol, for example `accept`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Reject => "reject",
            Self::Older => "older",
            Self::Partial => "partial",
        }
    }

    /// Its name in Rust, for a message that says what to write.
    pub(crate) const fn ident(self) -> &'static str {
        match self {
            Self::Accept => "Accept",
            Self::Reject => "Reject",
            Self::Older => "Older",
            Self::Partial => "Partial",
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a least-loaded router would do if it believed the wrong decoding of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Hazard {
    /// The engine reads as idle and gets everything.
    AttractsAll,
    /// The engine is never chosen.
    Starves,
    /// A capacity of zero is divided by.
    DividesByZero,
    /// An old reading passes for a new one.
    Stale,
    /// The router falls over.
    Crash,
    /// Nothing that a user would notice.
    None,
}

impl Hazard {
    /// Its name in vectors and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AttractsAll => "attracts-all",
            Self::Starves => "starves",
            Self::DividesByZero => "divides-by-zero",
            Self::Stale => "stale",
            Self::Crash => "crash",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Our own answer to each policy is one of those that it takes, and names lead back.
    #[test]
    fn policies_are_consistent() {
        for &policy in Policy::ALL {
            assert!(policy.choices().contains(&policy.ours()), "{policy}");
            assert_eq!(Policy::from_name(policy.name()), Some(policy));
        }
        assert_eq!(Policy::from_name("trailingbytes"), None);
    }
}
