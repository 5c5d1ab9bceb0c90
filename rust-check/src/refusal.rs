//! Why bytes are refused, and where.

use std::fmt;

use rmp::Marker;

use crate::stat::Revision;

/// The reason codes, one set for every language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// A byte that msgpack never uses, `0xc1` (rule W10).
    Malformed,
    /// The bytes end inside the array (rule W10).
    Truncated,
    /// Something other than a msgpack array (rule W10).
    NotArray,
    /// Element 0 is not the string `LoadStat` (rule W1).
    BadTag,
    /// An element that the reader needs is not there (rule W9).
    TooShort,
    /// A count that is no integer (rule W5).
    BadType,
    /// A negative count (rule W5).
    OutOfRange,
    /// Bytes behind the array (rule W6).
    TrailingBytes,
    /// Not exactly three frames (rule F1).
    FrameCount,
    /// Frame 0 is not exactly `load` (rule F2).
    BadTopic,
    /// Frame 1 is not 8 bytes long (rule F3).
    BadSeqLength,
    /// The sequence is negative (rule F3).
    NegativeSeq,
}

impl Reason {
    /// Every reason, in the order of their numbers in the C ABI.
    pub const ALL: &'static [Self] = &[
        Self::Malformed,
        Self::Truncated,
        Self::NotArray,
        Self::BadTag,
        Self::TooShort,
        Self::BadType,
        Self::OutOfRange,
        Self::TrailingBytes,
        Self::FrameCount,
        Self::BadTopic,
        Self::BadSeqLength,
        Self::NegativeSeq,
    ];

    /// Its code in vectors, reports and the testee protocol, for example `too-short`.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Truncated => "truncated",
            Self::NotArray => "not-array",
            Self::BadTag => "bad-tag",
            Self::TooShort => "too-short",
            Self::BadType => "bad-type",
            Self::OutOfRange => "out-of-range",
            Self::TrailingBytes => "trailing-bytes",
            Self::FrameCount => "frame-count",
            Self::BadTopic => "bad-topic",
            Self::BadSeqLength => "bad-seq-length",
            Self::NegativeSeq => "negative-seq",
        }
    }

    /// The reason with that code.
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.code() == code)
    }

    /// Its number in the C ABI (`enum loadwire_reason`), counted from 1.
    pub const fn number(self) -> u32 {
        match self {
            Self::Malformed => 1,
            Self::Truncated => 2,
            Self::NotArray => 3,
            Self::BadTag => 4,
            Self::TooShort => 5,
            Self::BadType => 6,
            Self::OutOfRange => 7,
            Self::TrailingBytes => 8,
            Self::FrameCount => 9,
            Self::BadTopic => 10,
            Self::BadSeqLength => 11,
            Self::NegativeSeq => 12,
        }
    }

    /// The rule of the contract that such bytes break.
    pub const fn rule(self) -> &'static str {
        match self {
            Self::Malformed | Self::Truncated | Self::NotArray => "W10",
            Self::BadTag => "W1",
            Self::TooShort => "W9",
            Self::BadType | Self::OutOfRange => "W5",
            Self::TrailingBytes => "W6",
            Self::FrameCount => "F1",
            Self::BadTopic => "F2",
            Self::BadSeqLength | Self::NegativeSeq => "F3",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Bytes that are no reading: why, by which rule, and where.
///
/// It is `Copy` and borrows nothing, so that a refusal costs no allocation either; the text is made
/// when it is displayed.
///
/// ```
/// let refusal = loadwire_check::decode(b"\x95\xa8LoadStat\x07\x03\x01\x09").unwrap_err();
/// assert_eq!(refusal.reason, loadwire_check::Reason::TooShort);
/// assert_eq!(
///     refusal.to_string(),
///     "too-short: expected at least 6 elements, got 5, at byte 0, element 5 (attn_dp_rank) (rule W9)"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason code.
    pub reason: Reason,
    /// Byte offset in the payload, or in the frame named by `frame`.
    pub offset: usize,
    /// Index of the array element at fault (0 is the tag), where one is.
    pub element: Option<u32>,
    /// Index of the frame at fault, when a whole message was parsed and one frame is.
    pub frame: Option<u8>,
    pub(crate) found: Found,
}

/// What stood there, kept for the text of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The reason says it all.
    Nothing,
    /// A msgpack value that starts with this byte.
    Marker(u8),
    /// A negative integer.
    Integer(i64),
    /// A string instead of the tag: its announced length and its first bytes.
    Tag { len: u32, start: [u8; 12] },
    /// So many elements, frames or bytes.
    Count(u64),
    /// A topic, with the payload frame's face behind it: does it look like the KV-event stream's?
    Topic { len: usize, start: [u8; 12], kv_events: bool },
}

impl Refusal {
    #[cold]
    pub(crate) const fn new(
        reason: Reason,
        offset: usize,
        element: Option<u32>,
        found: Found,
    ) -> Self {
        Self { reason, offset, element, frame: None, found }
    }

    pub(crate) const fn in_frame(mut self, frame: u8) -> Self {
        self.frame = Some(frame);
        self
    }

    /// The rule of the contract that the bytes break, for example `W9`.
    pub const fn rule(&self) -> &'static str {
        self.reason.rule()
    }

    /// The name of the field at fault, where `element` is one that the contract knows.
    pub fn field(&self) -> Option<&'static str> {
        let index = (self.element? as usize).checked_sub(1)?;
        Revision::LATEST.fields().get(index).copied()
    }

    fn expected(&self) -> &'static str {
        match self.reason {
            Reason::Malformed => "a msgpack value",
            Reason::Truncated => "more bytes",
            Reason::NotArray => "a msgpack array",
            Reason::BadTag => "the string \"LoadStat\"",
            Reason::TooShort => "at least 6 elements",
            Reason::BadType if self.field() == Some("attn_dp_rank") => "an unsigned integer or nil",
            Reason::BadType => "an unsigned integer",
            Reason::OutOfRange => "an unsigned integer",
            Reason::TrailingBytes => "the end of the payload",
            Reason::FrameCount => "3 frames",
            Reason::BadTopic => "the topic \"load\"",
            Reason::BadSeqLength => "a sequence of 8 bytes",
            Reason::NegativeSeq => "a sequence of 0 or more",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, got ", self.reason, self.expected())?;
        match self.found {
            Found::Nothing => match self.reason {
                Reason::Malformed => f.write_str("the byte c1, which msgpack never uses")?,
                _ => f.write_str("the end of the payload")?,
            },
            Found::Marker(byte) => write!(f, "{} ({byte:02x})", kind_of(byte))?,
            Found::Integer(value) => write!(f, "{value}")?,
            Found::Tag { len, start } => write_text(f, "the string", len as usize, &start)?,
            Found::Topic { len, start, .. } => write_text(f, "the topic", len, &start)?,
            Found::Count(count) => match self.reason {
                Reason::TrailingBytes => write!(f, "{count} more byte(s)")?,
                Reason::BadSeqLength => write!(f, "{count} byte(s)")?,
                _ => write!(f, "{count}")?,
            },
        }
        if self.reason != Reason::FrameCount {
            write!(f, ", at byte {}", self.offset)?;
        }
        if let Some(frame) = self.frame {
            write!(f, " of frame {frame}")?;
        }
        match (self.element, self.field()) {
            (Some(0), _) => f.write_str(", element 0 (the tag)")?,
            (Some(element), Some(field)) => write!(f, ", element {element} ({field})")?,
            (Some(element), None) => write!(f, ", element {element}")?,
            (None, _) => {}
        }
        if self.looks_like_kv_events() {
            f.write_str("; it looks like the KV-event stream, which has a port of its own")?;
        }
        write!(f, " (rule {})", self.rule())
    }
}

impl Refusal {
    /// Whether a refused message looks like one of the KV-event stream, which shares the framing
    /// but has a socket of its own (rule F5): a subscriber on the wrong port sees this.
    pub fn looks_like_kv_events(&self) -> bool {
        match self.found {
            Found::Topic { kv_events, .. } => kv_events,
            // A KV-event batch starts with its time, where a load reading has its tag.
            Found::Marker(byte) => self.reason == Reason::BadTag && is_float(byte),
            _ => false,
        }
    }
}

impl std::error::Error for Refusal {}

pub(crate) fn is_float(byte: u8) -> bool {
    matches!(Marker::from_u8(byte), Marker::F32 | Marker::F64)
}

fn write_text(f: &mut fmt::Formatter<'_>, what: &str, len: usize, start: &[u8; 12]) -> fmt::Result {
    let shown = start.get(..len.min(start.len())).unwrap_or(start);
    write!(f, "{what} \"{}", shown.escape_ascii())?;
    if len > start.len() {
        write!(f, "…\" of {len} bytes")
    } else {
        f.write_str("\"")
    }
}

fn kind_of(byte: u8) -> &'static str {
    match Marker::from_u8(byte) {
        Marker::FixPos(_) | Marker::U8 | Marker::U16 | Marker::U32 | Marker::U64 => {
            "an unsigned integer"
        }
        Marker::FixNeg(_) | Marker::I8 | Marker::I16 | Marker::I32 | Marker::I64 => "an integer",
        Marker::Null => "nil",
        Marker::False | Marker::True => "a bool",
        Marker::F32 | Marker::F64 => "a float",
        Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => "a string",
        Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => "binary data",
        Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => "an array",
        Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => "a map",
        Marker::Reserved => "a byte that msgpack never uses",
        Marker::Ext8
        | Marker::Ext16
        | Marker::Ext32
        | Marker::FixExt1
        | Marker::FixExt2
        | Marker::FixExt4
        | Marker::FixExt8
        | Marker::FixExt16 => "an extension value",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes and numbers are distinct, and a code leads back to its reason.
    #[test]
    fn reasons_are_numbered_and_named_in_one_order() {
        for (index, &reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(reason.number() as usize, index + 1);
            assert_eq!(Reason::from_code(reason.code()), Some(reason));
        }
        assert_eq!(Reason::from_code("no-such-reason"), None);
    }
}
