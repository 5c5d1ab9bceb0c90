//! The load of a worker, in terms that no table has to share.

use std::fmt;

use super::Count;
use crate::stat::Revision;

/// The load of one worker as a table has it: the sums over its ranks. A count that is not set is
/// unknown, which is not zero: where one rank did not send it, there is no sum (rule W9).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    counts: Vec<Option<Count>>,
}

macro_rules! counts {
    ($($index:literal $name:ident: $text:literal)*) => {$(
        #[doc = $text]
        #[must_use]
        pub fn $name(mut self, sum: impl Into<Count>) -> Self {
            if self.counts.len() <= $index {
                self.counts.resize($index + 1, None);
            }
            self.counts[$index] = Some(sum.into());
            self
        }
    )*};
}

impl Load {
    /// A load without any count.
    pub fn new() -> Self {
        Self::default()
    }

    /// A load of the counts in wire order, the rank left out, from `num_running_reqs` on.
    pub fn from_counts<C: Into<Count>>(counts: impl IntoIterator<Item = C>) -> Self {
        Self { counts: counts.into_iter().map(|count| Some(count.into())).collect() }
    }

    counts! {
        0 num_running_reqs: "Requests that are running."
        1 num_waiting_reqs: "Requests that wait."
        2 num_tokens: "KV tokens in use."
        3 max_total_num_tokens: "KV capacity in tokens."
        4 num_waiting_uncached_tokens: "Prompt tokens that wait for prefill and missed the cache (revision 2)."
        5 num_total_tokens: "Tokens in use and those of queued requests (revision 2)."
        6 max_running_requests: "How many requests run at most (revision 2)."
        7 total_prefill_uncached_tokens: "Tokens prefilled without the cache (revision 2)."
        8 total_prefill_busy_us: "Time of prefill steps in microseconds (revision 2)."
    }

    /// Where this load departs from the right one, as two texts that list only what differs.
    pub(super) fn differences(
        &self,
        right: &[u128],
        counted: &[&str],
        saturates: bool,
    ) -> Option<(String, String)> {
        let mut expected = Vec::new();
        let mut got = Vec::new();
        for (index, name) in names(Revision::LATEST).enumerate() {
            let ours = self.counts.get(index).copied().flatten();
            let right = match right.get(index).filter(|_| counted.contains(&name)) {
                Some(&sum) if saturates => Some(Count::from(sum.min(u64::MAX.into()))),
                Some(&sum) => Some(Count::from(sum)),
                // What a table says of a count that it does not claim to have is not judged.
                None if !counted.contains(&name) => continue,
                None => None,
            };
            if right != ours {
                expected.push(named(name, right));
                got.push(named(name, ours));
            }
        }
        if self.counts.len() > names(Revision::LATEST).count() {
            got.push(format!("{} counts", self.counts.len()));
            expected.push(format!("{} counts", names(Revision::LATEST).count()));
        }
        (!expected.is_empty()).then(|| (expected.join(", "), got.join(", ")))
    }
}

/// The counts of a revision in wire order: its fields without the rank, of which there is no sum.
pub(super) fn names(revision: Revision) -> impl Iterator<Item = &'static str> {
    revision.fields().iter().copied().filter(|&name| name != "attn_dp_rank")
}

fn named(name: &str, count: Option<Count>) -> String {
    match count {
        Some(count) => format!("{name} {count}"),
        None => format!("no {name}"),
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = names(Revision::LATEST).zip(&self.counts).filter(|(_, count)| count.is_some());
        let said: Vec<_> = said.map(|(name, &count)| named(name, count)).collect();
        match said.is_empty() {
            true => f.write_str("without any count"),
            false => f.write_str(&said.join(", ")),
        }
    }
}
