//! What a decoder under test answers, in terms that no decoder has to share.

use std::error::Error;
use std::fmt;

use crate::frames::Message;
use crate::refusal::{Reason, Refusal};
use crate::stat::{LoadStat, Revision};

/// What a decoder said to one vector.
///
/// Nobody has to name this type: an `Option` or a `Result` of anything that is a [`Reading`] is one,
/// and so is a `Result` whose error is anything that is a [`Rejection`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The bytes are a reading.
    Accept(Reading),
    /// The bytes are no reading.
    Reject(Rejection),
}

impl<T: Into<Reading>> From<Option<T>> for Answer {
    fn from(reading: Option<T>) -> Self {
        match reading {
            Some(reading) => Self::Accept(reading.into()),
            None => Self::Reject(Rejection::default()),
        }
    }
}

impl<T: Into<Reading>, E: Into<Rejection>> From<Result<T, E>> for Answer {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(reading) => Self::Accept(reading.into()),
            Err(rejection) => Self::Reject(rejection.into()),
        }
    }
}

/// A value of one field: any integer, or nil. Signed, so that a decoder that makes a negative
/// number of something is shown with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(Option<i128>);

macro_rules! counts {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Count {
            fn from(value: $integer) -> Self {
                // Lossless: no integer type here is wider than 64 bits.
                Self(Some(value as i128))
            }
        }

        impl From<Option<$integer>> for Count {
            fn from(value: Option<$integer>) -> Self {
                Self(value.map(|value| value as i128))
            }
        }
    )*};
}

counts!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

/// A sum over ranks may pass 64 bits. What passes 127 is no sum of counts, and is shown as the
/// greatest number there is.
impl From<u128> for Count {
    fn from(value: u128) -> Self {
        Self(Some(value.try_into().unwrap_or(i128::MAX)))
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => write!(f, "{value}"),
            None => f.write_str("nil"),
        }
    }
}

/// What a decoder made of the bytes, field by field. A field that is not set is missing, which is
/// not zero: set those that your decoder read and no others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    revision: Option<Revision>,
    sequence: Option<Count>,
    fields: Vec<Option<Count>>,
}

macro_rules! fields {
    ($($index:literal $name:ident: $text:literal)*) => {$(
        #[doc = $text]
        #[must_use]
        pub fn $name(self, value: impl Into<Count>) -> Self {
            self.with($index, value.into())
        }
    )*};
}

impl Reading {
    /// A reading without any field.
    pub fn new() -> Self {
        Self::default()
    }

    /// A reading of the fields in wire order, from `num_running_reqs` on; `None` is nil. The tag is
    /// left out, and so are fields that the decoder did not read.
    pub fn from_fields<C: Into<Count>>(fields: impl IntoIterator<Item = C>) -> Self {
        Self {
            fields: fields.into_iter().map(|field| Some(field.into())).collect(),
            ..Self::default()
        }
    }

    fields! {
        0 num_running_reqs: "Requests that are running."
        1 num_waiting_reqs: "Requests that wait."
        2 num_tokens: "KV tokens in use."
        3 max_total_num_tokens: "KV capacity in tokens."
        4 attn_dp_rank: "The rank, `None` for nil."
        5 num_waiting_uncached_tokens: "Prompt tokens that wait for prefill and missed the cache (revision 2)."
        6 num_total_tokens: "Tokens in use and those of queued requests (revision 2)."
        7 max_running_requests: "How many requests run at most (revision 2)."
        8 total_prefill_uncached_tokens: "Tokens prefilled without the cache (revision 2)."
        9 total_prefill_busy_us: "Time of prefill steps in microseconds (revision 2)."
    }

    /// The revision that was read. Optional: the fields say it already; a decoder that reports it
    /// has it checked as well.
    #[must_use]
    pub fn revision(mut self, revision: Revision) -> Self {
        self.revision = Some(revision);
        self
    }

    /// The sequence, for a parser of whole messages.
    #[must_use]
    pub fn sequence(mut self, sequence: impl Into<Count>) -> Self {
        self.sequence = Some(sequence.into());
        self
    }

    fn with(mut self, index: usize, value: Count) -> Self {
        if self.fields.len() <= index {
            self.fields.resize(index + 1, None);
        }
        self.fields[index] = Some(value);
        self
    }

    /// Where this reading departs from the right one, as two texts that list only what differs.
    pub(super) fn differences(
        &self,
        revision: Revision,
        values: &[Option<u64>],
        sequence: Option<u64>,
    ) -> Option<(String, String)> {
        let mut expected = Vec::new();
        let mut got = Vec::new();
        let mut compare = |name: &str, right: Option<Count>, given: Option<Count>| {
            if right != given {
                expected.push(named(name, right));
                got.push(named(name, given));
            }
        };
        for index in 0..values.len().max(self.fields.len()) {
            let right = values.get(index).map(|&value| Count::from(value));
            compare(&field_name(index), right, self.fields.get(index).copied().flatten());
        }
        if let Some(sequence) = sequence {
            compare("sequence", Some(sequence.into()), self.sequence);
        }
        if let Some(given) = self.revision {
            compare("revision", Some(revision.number().into()), Some(given.number().into()));
        }
        if expected.is_empty() {
            return None;
        }
        Some((expected.join(", "), got.join(", ")))
    }
}

fn field_name(index: usize) -> String {
    match Revision::LATEST.fields().get(index) {
        Some(name) => (*name).to_owned(),
        None => format!("element {}", index + 1),
    }
}

fn named(name: &str, value: Option<Count>) -> String {
    match value {
        Some(value) => format!("{name} {value}"),
        None => format!("no {name}"),
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        if let Some(sequence) = self.sequence {
            parts.push(named("sequence", Some(sequence)));
        }
        for (index, field) in self.fields.iter().enumerate() {
            if field.is_some() {
                parts.push(named(&field_name(index), *field));
            }
        }
        match parts.is_empty() {
            true => f.write_str("without any field"),
            false => f.write_str(&parts.join(", ")),
        }
    }
}

impl From<&LoadStat> for Reading {
    fn from(stat: &LoadStat) -> Self {
        Self::from_fields(stat.fields()).revision(stat.revision())
    }
}

impl From<LoadStat> for Reading {
    fn from(stat: LoadStat) -> Self {
        Self::from(&stat)
    }
}

impl From<Message> for Reading {
    fn from(message: Message) -> Self {
        Self::from(&message.stat).sequence(message.sequence)
    }
}

/// That a decoder refused the bytes. The reason code is optional: a decoder that gives one has it
/// checked, and one that does not is only asked whether it refuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejection {
    pub(super) reason: Option<Reason>,
    detail: String,
}

impl Rejection {
    /// A rejection with the text of the decoder's own error, shown when it was wrong to refuse.
    pub fn new(error: impl fmt::Display) -> Self {
        Self { reason: None, detail: error.to_string() }
    }

    /// States the reason code.
    #[must_use]
    pub fn reason(mut self, reason: Reason) -> Self {
        self.reason = Some(reason);
        self
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.reason, self.detail.as_str()) {
            (Some(reason), "") => write!(f, "{reason}"),
            (Some(reason), detail) => write!(f, "{reason} ({detail})"),
            (None, "") => f.write_str("without a reason"),
            (None, detail) => write!(f, "({detail})"),
        }
    }
}

impl From<()> for Rejection {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl From<Reason> for Rejection {
    fn from(reason: Reason) -> Self {
        Self::default().reason(reason)
    }
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal).reason(refusal.reason)
    }
}

impl From<String> for Rejection {
    fn from(detail: String) -> Self {
        Self { reason: None, detail }
    }
}

impl From<&str> for Rejection {
    fn from(detail: &str) -> Self {
        Self::new(detail)
    }
}

impl From<Box<dyn Error>> for Rejection {
    fn from(error: Box<dyn Error>) -> Self {
        Self::new(error)
    }
}

impl From<Box<dyn Error + Send + Sync>> for Rejection {
    fn from(error: Box<dyn Error + Send + Sync>) -> Self {
        Self::new(error)
    }
}
