//! The payload: a strict decoder (rules W1 to W12) and the canonical encoder (rule W6).

use std::fmt;
use std::ops::Deref;

use crate::refusal::{Found, Reason, Refusal};
use crate::stat::{LoadStat, Rev2, Revision};
use crate::tokens::{Cursor, Cut, Head};

/// Element 0 of every payload (rule W1).
pub const TAG: &str = "LoadStat";

/// The tag as engines spell it.
const CANONICAL_TAG: &[u8] = b"\xa8LoadStat";

const NIL: u8 = 0xc0;

/// How many bytes a payload of the newest revision has at most: the array header, the tag, and
/// every count in the widest format.
pub const MAX_ENCODED: usize = 1 + 9 + 9 * Revision::LATEST.fields().len();

/// Decodes a payload as a reader of the newest revision.
///
/// Takes every legal spelling of a value (rule W7), ignores elements behind those it knows (rule
/// W8), and reads the revision that the array's length names (rule W12), so that the short message
/// of an older engine is never read as a new one with zeros. Allocates nothing, does not recurse,
/// and panics on no input.
///
/// # Errors
///
/// The first thing wrong, from the front: reason code, rule, byte offset and element. Where the
/// contract leaves a choice, this decoder refuses trailing bytes, an omitted rank, a tag spelled as
/// binary data and nil in an appended count; it takes counts up to 2^64-1 and reads a partial tail
/// as the older revision.
///
/// ```
/// let stat = loadwire_check::decode(b"\x96\xa8LoadStat\x07\x03\xcd\x04\x00\xcd\x20\x00\x02")?;
/// assert_eq!(stat.num_tokens, 1024);
/// assert_eq!(stat.attn_dp_rank, Some(2));
/// assert_eq!(stat.rev2, None); // an engine of revision 1 says nothing about these
/// # Ok::<(), loadwire_check::Refusal>(())
/// ```
pub fn decode(payload: &[u8]) -> Result<LoadStat, Refusal> {
    decode_as(payload, Revision::LATEST)
}

/// Decodes a payload as a reader of `revision`: what newer revisions appended is an unknown tail to
/// it, read whole and ignored (rule W8).
///
/// # Errors
///
/// As [`decode`].
pub fn decode_as(payload: &[u8], revision: Revision) -> Result<LoadStat, Refusal> {
    let mut reader = Reader { payload, cursor: Cursor::new(payload), next: 0 };
    let len = reader.array_header()?;
    if len == 0 {
        return Err(too_short(0));
    }
    reader.tag()?;

    let stated = if len >= Revision::V2.elements() {
        Revision::V2
    } else if len >= Revision::V1.elements() {
        Revision::V1
    } else {
        return Err(too_short(len));
    };

    let mut stat = LoadStat {
        num_running_reqs: reader.count()?,
        num_waiting_reqs: reader.count()?,
        num_tokens: reader.count()?,
        max_total_num_tokens: reader.count()?,
        attn_dp_rank: reader.rank()?,
        rev2: None,
    };
    if stated.min(revision) >= Revision::V2 {
        stat.rev2 = Some(Rev2 {
            num_waiting_uncached_tokens: reader.count()?,
            num_total_tokens: reader.count()?,
            max_running_requests: reader.count()?,
            total_prefill_uncached_tokens: reader.count()?,
            total_prefill_busy_us: reader.count()?,
        });
    }
    while reader.next < len {
        reader.ignore()?;
    }
    match reader.cursor.rest() {
        [] => Ok(stat),
        rest => Err(trailing(reader.cursor.at(), rest)),
    }
}

/// Reads one payload from its front to its end.
///
/// What an engine sends is read in line. Everything else, legal or not, is left to the functions
/// below, which take the cursor by value and give it back: a cursor that nobody points to stays in
/// registers, and the decoder runs in half the time.
struct Reader<'a> {
    payload: &'a [u8],
    cursor: Cursor<'a>,
    /// The index of the next element.
    next: u32,
}

impl Reader<'_> {
    /// The array header, and how many elements it announces.
    #[inline]
    fn array_header(&mut self) -> Result<u32, Refusal> {
        if let Some(len) = self.cursor.small_array() {
            return Ok(len.into());
        }
        let (len, cursor) = any_array_header(self.cursor, self.payload)?;
        self.cursor = cursor;
        Ok(len)
    }

    /// Element 0, which must be the string `LoadStat` in any string format (rules W1, W7).
    #[inline]
    fn tag(&mut self) -> Result<(), Refusal> {
        if !self.cursor.accept(CANONICAL_TAG) {
            self.cursor = any_tag(self.cursor, self.payload)?;
        }
        self.next += 1;
        Ok(())
    }

    /// An unsigned count in any integer format (rules W5, W7).
    #[inline]
    fn count(&mut self) -> Result<u64, Refusal> {
        let value = match self.cursor.unsigned() {
            Some(value) => value,
            None => {
                let (value, cursor) = any_count(self.cursor, self.payload, self.next)?;
                self.cursor = cursor;
                value
            }
        };
        self.next += 1;
        Ok(value)
    }

    /// A count, or nil (rule W4).
    #[inline]
    fn rank(&mut self) -> Result<Option<u64>, Refusal> {
        if self.cursor.accept(&[NIL]) {
            self.next += 1;
            return Ok(None);
        }
        self.count().map(Some)
    }

    /// An element behind those that the reader knows: any value, read whole (rule W8).
    #[inline]
    fn ignore(&mut self) -> Result<(), Refusal> {
        self.cursor = any_value(self.cursor, self.payload, self.next)?;
        self.next += 1;
        Ok(())
    }
}

#[cold]
fn any_array_header<'a>(
    mut cursor: Cursor<'a>,
    payload: &[u8],
) -> Result<(u32, Cursor<'a>), Refusal> {
    let refusal = match cursor.head() {
        // The widest array header has 32 bits.
        Ok(Head::Array(len)) => return Ok((u32::try_from(len).unwrap_or(u32::MAX), cursor)),
        Err(Cut::Malformed(at)) => Refusal::new(Reason::Malformed, at, None, Found::Nothing),
        Err(Cut::Truncated) if matches!(payload, [] | [0xdc | 0xdd, ..]) => {
            Refusal::new(Reason::Truncated, payload.len(), None, Found::Nothing)
        }
        // A number or a length that is cut short is no array all the same.
        Ok(_) | Err(Cut::Truncated) => Refusal::new(Reason::NotArray, 0, None, marker(payload, 0)),
    };
    Err(refusal)
}

#[cold]
fn any_tag<'a>(mut cursor: Cursor<'a>, payload: &[u8]) -> Result<Cursor<'a>, Refusal> {
    let start = cursor.at();
    let head = cursor.head().map_err(|cut| unreadable(cut, payload, 0))?;
    let body = cursor.rest();
    cursor.finish(head).map_err(|cut| unreadable(cut, payload, 0))?;
    let found = match head {
        Head::Str(len) if len == TAG.len() as u64 && body.starts_with(TAG.as_bytes()) => {
            return Ok(cursor);
        }
        Head::Str(len) => {
            Found::Tag { len: u32::try_from(len).unwrap_or(u32::MAX), start: first_bytes(body) }
        }
        _ => marker(payload, start),
    };
    Err(Refusal::new(Reason::BadTag, start, Some(0), found))
}

/// A count in a signed format, and everything that is refused where a count must stand.
#[cold]
fn any_count<'a>(
    mut cursor: Cursor<'a>,
    payload: &[u8],
    element: u32,
) -> Result<(u64, Cursor<'a>), Refusal> {
    let start = cursor.at();
    // Whole first, judged second: bytes that run out are the first thing wrong.
    let head = cursor.head().map_err(|cut| unreadable(cut, payload, element))?;
    cursor.finish(head).map_err(|cut| unreadable(cut, payload, element))?;
    let (reason, found) = match head {
        Head::Unsigned(value) => return Ok((value, cursor)),
        Head::Signed(value) => match u64::try_from(value) {
            Ok(value) => return Ok((value, cursor)),
            Err(_) => (Reason::OutOfRange, Found::Integer(value)),
        },
        _ => (Reason::BadType, marker(payload, start)),
    };
    Err(Refusal::new(reason, start, Some(element), found))
}

fn any_value<'a>(
    mut cursor: Cursor<'a>,
    payload: &[u8],
    element: u32,
) -> Result<Cursor<'a>, Refusal> {
    let head = cursor.head().map_err(|cut| unreadable(cut, payload, element))?;
    cursor.finish(head).map_err(|cut| unreadable(cut, payload, element))?;
    Ok(cursor)
}

/// The marker at that offset, for the message of a refusal.
fn marker(payload: &[u8], at: usize) -> Found {
    payload.get(at).map_or(Found::Nothing, |&byte| Found::Marker(byte))
}

#[cold]
fn trailing(at: usize, rest: &[u8]) -> Refusal {
    Refusal::new(Reason::TrailingBytes, at, None, Found::Count(rest.len() as u64))
}

#[cold]
fn too_short(len: u32) -> Refusal {
    Refusal::new(Reason::TooShort, 0, Some(len), Found::Count(len.into()))
}

#[cold]
fn unreadable(cut: Cut, payload: &[u8], element: u32) -> Refusal {
    let (reason, offset) = match cut {
        Cut::Truncated => (Reason::Truncated, payload.len()),
        Cut::Malformed(at) => (Reason::Malformed, at),
    };
    Refusal::new(reason, offset, Some(element), Found::Nothing)
}

/// The start of some text, for the message of a refusal.
pub(crate) fn first_bytes<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut start = [0; N];
    for (to, from) in start.iter_mut().zip(bytes) {
        *to = *from;
    }
    start
}

/// A payload in the form that an engine sends, held without an allocation; [`encode`] makes it, and
/// it reads as a byte slice.
#[derive(Clone, Copy)]
pub struct Encoded {
    bytes: [u8; MAX_ENCODED],
    len: usize,
}

impl Encoded {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Deref for Encoded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsRef<[u8]> for Encoded {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq for Encoded {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Encoded {}

impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Encoded(\"{}\")", self.as_bytes().escape_ascii())
    }
}

/// Encodes a reading in the canonical form: exactly the elements of its revision (rule W4), every
/// value in its shortest format and no byte behind the array (rule W6).
///
/// ```
/// let payload = b"\x96\xa8LoadStat\x07\x03\xcd\x04\x00\xcd\x20\x00\xc0";
/// let stat = loadwire_check::decode(payload)?;
/// assert_eq!(loadwire_check::encode(&stat).as_bytes(), payload);
/// # Ok::<(), loadwire_check::Refusal>(())
/// ```
pub fn encode(stat: &LoadStat) -> Encoded {
    let mut encoded = Encoded { bytes: [0; MAX_ENCODED], len: 0 };
    let mut left: &mut [u8] = &mut encoded.bytes;
    let written = write_payload(stat, &mut left);
    let unused = left.len();
    debug_assert!(written.is_ok(), "MAX_ENCODED holds every payload");
    encoded.len = MAX_ENCODED - unused;
    encoded
}

fn write_payload(
    stat: &LoadStat,
    to: &mut &mut [u8],
) -> Result<(), rmp::encode::ValueWriteError<std::io::Error>> {
    rmp::encode::write_array_len(to, stat.revision().elements())?;
    rmp::encode::write_str(to, TAG)?;
    for field in stat.fields() {
        match field {
            Some(value) => {
                rmp::encode::write_uint(to, value)?;
            }
            None => rmp::encode::write_nil(to)
                .map_err(rmp::encode::ValueWriteError::InvalidMarkerWrite)?,
        }
    }
    Ok(())
}
