//! A hand-written visitor: every element that is read has to be there, and the rest is drained.

use std::fmt;

use decoders::{named, serve, Fields};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, SeqAccess, Visitor};

struct LoadStat {
    base: [u64; 4],
    attn_dp_rank: Option<u64>,
    /// The counts that revision 2 appended; all of them or none.
    tail: Option<[u64; 5]>,
}

struct LoadStatVisitor;

impl<'de> Visitor<'de> for LoadStatVisitor {
    type Value = LoadStat;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a LoadStat array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<LoadStat, A::Error> {
        fn required<'de, A: SeqAccess<'de>, T: serde::Deserialize<'de>>(
            seq: &mut A,
            index: usize,
        ) -> Result<T, A::Error> {
            seq.next_element()?.ok_or_else(|| A::Error::invalid_length(index, &"a LoadStat array"))
        }
        let tag: String = required(&mut seq, 0)?;
        if tag != "LoadStat" {
            return Err(A::Error::custom(format_args!("unexpected tag {tag}")));
        }
        let mut base = [0; 4];
        for (index, slot) in base.iter_mut().enumerate() {
            *slot = required(&mut seq, index + 1)?;
        }
        let attn_dp_rank = required(&mut seq, 5)?;
        // Shorter than revision 2: unknown elements behind revision 1.
        let tail = if seq.size_hint().is_some_and(|left| left >= 5) {
            let mut tail = [0; 5];
            for (index, slot) in tail.iter_mut().enumerate() {
                *slot = required(&mut seq, index + 6)?;
            }
            Some(tail)
        } else {
            None
        };
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(LoadStat { base, attn_dp_rank, tail })
    }
}

impl<'de> Deserialize<'de> for LoadStat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(LoadStatVisitor)
    }
}

fn decode(payload: &[u8]) -> Result<Fields, String> {
    let stat: LoadStat = rmp_serde::from_slice(payload).map_err(|why| why.to_string())?;
    let base = stat.base.into_iter().map(Some);
    let tail = stat.tail.into_iter().flatten().map(Some);
    Ok(named(base.chain([stat.attn_dp_rank]).chain(tail)))
}

fn main() {
    let policies = [
        ("TrailingBytes", "accept"),
        ("OmittedRank", "reject"),
        ("TagAsBin", "accept"),
        ("CountAboveI64", "accept"),
        ("PartialTail", "older"),
        ("NilTail", "reject"),
    ];
    serve("rust-rmp-serde-visitor", 2, &policies, decode);
}
