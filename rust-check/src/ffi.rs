//! The C ABI of `include/loadwire.h`, through which any language can run this decoder in process.
//!
//! The header is the reference for what each function promises. Every entry point catches panics,
//! writes only where it was told to, and keeps no pointer.

use std::ffi::{c_char, CStr};
use std::mem::align_of;
use std::panic::{catch_unwind, UnwindSafe};
use std::slice;

use crate::contract::Policy;
use crate::frames::parse_frames;
use crate::payload::{decode, decode_as, encode};
use crate::refusal::Refusal;
use crate::stat::{LoadStat, Rev2, Revision};

/// The version of the C ABI (`LOADWIRE_ABI_VERSION`).
pub const ABI_VERSION: u32 = 1;

/// Room for array elements in a [`CReading`], the tag included (`LOADWIRE_MAX_ELEMENTS`).
pub const MAX_ELEMENTS: usize = 32;

/// `LOADWIRE_OK`
pub const OK: i32 = 0;
/// `LOADWIRE_REFUSED`
pub const REFUSED: i32 = 1;
/// `LOADWIRE_BAD_CALL`
pub const BAD_CALL: i32 = 2;
/// `LOADWIRE_PANIC`
pub const PANIC: i32 = 3;

/// `loadwire_reading`: one reading, by array element.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CReading {
    /// The revision that was read, from 1.
    pub revision: u32,
    /// How many array elements were read, the tag included.
    pub elements: u32,
    /// Bit `i` is set when element `i` was nil.
    pub nil_mask: u64,
    /// `values[i]` is array element `i`; `values[0]`, the tag, is 0.
    pub values: [u64; MAX_ELEMENTS],
}

/// `loadwire_refusal`: why and where bytes were refused.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CRefusal {
    /// [`Reason::number`](crate::Reason::number), or 0 when nothing was refused.
    pub reason: u32,
    /// Index of the frame, or -1.
    pub frame: i32,
    /// Index of the array element, or -1.
    pub element: i32,
    /// 0.
    pub reserved: u32,
    /// Byte offset in the payload or in the frame.
    pub offset: u64,
}

impl CRefusal {
    const NONE: Self = Self { reason: 0, frame: -1, element: -1, reserved: 0, offset: 0 };
}

impl From<&Refusal> for CRefusal {
    fn from(refusal: &Refusal) -> Self {
        Self {
            reason: refusal.reason.number(),
            frame: refusal.frame.map_or(-1, i32::from),
            element: refusal
                .element
                .map_or(-1, |element| i32::try_from(element).unwrap_or(i32::MAX)),
            reserved: 0,
            offset: refusal.offset as u64,
        }
    }
}

impl From<&LoadStat> for CReading {
    fn from(stat: &LoadStat) -> Self {
        let revision = stat.revision();
        let mut reading = Self {
            revision: revision.number(),
            elements: revision.elements(),
            nil_mask: 0,
            values: [0; MAX_ELEMENTS],
        };
        for (index, (slot, field)) in
            reading.values.iter_mut().skip(1).zip(stat.fields()).enumerate()
        {
            match field {
                Some(value) => *slot = value,
                None => reading.nil_mask |= 1 << (index + 1),
            }
        }
        reading
    }
}

impl CReading {
    /// The reading as a stat, unless it is none that an engine could send.
    fn to_stat(self) -> Option<LoadStat> {
        const RANK: u64 = 1 << 5;
        let revision = Revision::from_number(self.revision)?;
        if self.elements != revision.elements() || self.nil_mask & !RANK != 0 {
            return None;
        }
        let [_, running, waiting, tokens, capacity, rank, uncached, total, limit, prefilled, busy, ..] =
            self.values;
        Some(LoadStat {
            num_running_reqs: running,
            num_waiting_reqs: waiting,
            num_tokens: tokens,
            max_total_num_tokens: capacity,
            attn_dp_rank: (self.nil_mask & RANK == 0).then_some(rank),
            rev2: (revision >= Revision::V2).then_some(Rev2 {
                num_waiting_uncached_tokens: uncached,
                num_total_tokens: total,
                max_running_requests: limit,
                total_prefill_uncached_tokens: prefilled,
                total_prefill_busy_us: busy,
            }),
        })
    }
}

/// Runs one entry point; a panic becomes a status instead of crossing into C.
fn guarded(entry: impl FnOnce() -> i32 + UnwindSafe) -> i32 {
    catch_unwind(entry).unwrap_or(PANIC)
}

fn usable<T>(pointer: *const T) -> bool {
    !pointer.is_null() && pointer as usize % align_of::<T>() == 0
}

/// Borrows a C buffer; `None` if there cannot be one.
///
/// # Safety
///
/// Unless `len` is 0, a non-null, aligned `data` is valid for reads of `len` values, which nobody
/// writes for as long as the slice lives.
unsafe fn borrowed<'a, T>(data: *const T, len: usize) -> Option<&'a [T]> {
    if len == 0 {
        return Some(&[]);
    }
    let bytes = len.checked_mul(std::mem::size_of::<T>())?;
    if !usable(data) || isize::try_from(bytes).is_err() {
        return None;
    }
    // SAFETY: not null, aligned and no longer than isize::MAX, checked above; the caller answers
    // for the rest.
    Some(unsafe { slice::from_raw_parts(data, len) })
}

/// Writes what came of a call to the caller's structs; see the header for what is left alone.
///
/// # Safety
///
/// `out` and `refusal` are valid for writes if they are usable.
unsafe fn answer(
    result: Result<LoadStat, Refusal>,
    out: *mut CReading,
    refusal: *mut CRefusal,
) -> i32 {
    match result {
        Ok(stat) => {
            // SAFETY: the caller of this function vouches for both.
            unsafe {
                out.write(CReading::from(&stat));
                refusal.write(CRefusal::NONE);
            }
            OK
        }
        Err(why) => {
            // SAFETY: as above.
            unsafe { refusal.write(CRefusal::from(&why)) };
            REFUSED
        }
    }
}

/// The version of the C ABI.
#[no_mangle]
pub extern "C" fn loadwire_abi_version() -> u32 {
    ABI_VERSION
}

/// Name and version of this decoder.
#[no_mangle]
pub extern "C" fn loadwire_implementation() -> *const c_char {
    const NAME: &str = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"), "\0");
    NAME.as_ptr().cast()
}

/// The newest revision that [`loadwire_decode`] reads.
#[no_mangle]
pub extern "C" fn loadwire_revision() -> u32 {
    Revision::LATEST.number()
}

/// Decodes one payload as a reader of the newest revision.
///
/// # Safety
///
/// `payload` is valid for reads of `len` bytes or `len` is 0; `out` and `refusal` are null or valid
/// for writes.
#[no_mangle]
pub unsafe extern "C" fn loadwire_decode(
    payload: *const u8,
    len: usize,
    out: *mut CReading,
    refusal: *mut CRefusal,
) -> i32 {
    guarded(|| {
        // SAFETY: the caller vouches for the buffer.
        let Some(payload) = (unsafe { borrowed(payload, len) }) else {
            return BAD_CALL;
        };
        if !usable(out) || !usable(refusal) {
            return BAD_CALL;
        }
        // SAFETY: both are usable, and the caller vouches for them.
        unsafe { answer(decode(payload), out, refusal) }
    })
}

/// Decodes one payload as a reader of `revision`.
///
/// # Safety
///
/// As [`loadwire_decode`].
#[no_mangle]
pub unsafe extern "C" fn loadwire_decode_as(
    payload: *const u8,
    len: usize,
    revision: u32,
    out: *mut CReading,
    refusal: *mut CRefusal,
) -> i32 {
    guarded(|| {
        // SAFETY: the caller vouches for the buffer.
        let Some(payload) = (unsafe { borrowed(payload, len) }) else {
            return BAD_CALL;
        };
        let Some(revision) = Revision::from_number(revision) else {
            return BAD_CALL;
        };
        if !usable(out) || !usable(refusal) {
            return BAD_CALL;
        }
        // SAFETY: both are usable, and the caller vouches for them.
        unsafe { answer(decode_as(payload, revision), out, refusal) }
    })
}

/// Parses the frames of one message as a reader of the newest revision.
///
/// # Safety
///
/// `frames` and `lens` are valid for reads of `count` values or `count` is 0; each frame is valid
/// for reads of its length or its length is 0; `sequence`, `out` and `refusal` are null or valid for
/// writes.
#[no_mangle]
pub unsafe extern "C" fn loadwire_parse_frames(
    frames: *const *const u8,
    lens: *const usize,
    count: usize,
    sequence: *mut i64,
    out: *mut CReading,
    refusal: *mut CRefusal,
) -> i32 {
    guarded(|| {
        // SAFETY: the caller vouches for both arrays.
        let arrays = unsafe { (borrowed(frames, count), borrowed(lens, count)) };
        let (Some(frames), Some(lens)) = arrays else {
            return BAD_CALL;
        };
        if !usable(sequence) || !usable(out) || !usable(refusal) {
            return BAD_CALL;
        }
        let parsed = match (frames, lens) {
            (&[topic, number, payload], &[topic_len, number_len, payload_len]) => {
                // SAFETY: the caller vouches for each frame.
                let message = unsafe {
                    (
                        borrowed(topic, topic_len),
                        borrowed(number, number_len),
                        borrowed(payload, payload_len),
                    )
                };
                let (Some(topic), Some(number), Some(payload)) = message else {
                    return BAD_CALL;
                };
                parse_frames(&[topic, number, payload])
            }
            // Refused by its number alone, so that no frame has to be valid. A message of no
            // frames says the same as one of four.
            _ => parse_frames::<&[u8]>(&[]),
        };
        if let Ok(message) = &parsed {
            // SAFETY: usable, and the caller vouches for it. A sequence fits: F3 bounds it.
            unsafe { sequence.write(i64::try_from(message.sequence).unwrap_or(i64::MAX)) };
        }
        // SAFETY: both are usable, and the caller vouches for them.
        unsafe { answer(parsed.map(|message| message.stat), out, refusal) }
    })
}

/// Encodes a reading in the canonical form.
///
/// # Safety
///
/// `reading` is null or valid for reads, `written` is null or valid for writes, and `buffer` is
/// valid for writes of `capacity` bytes or null.
#[no_mangle]
pub unsafe extern "C" fn loadwire_encode(
    reading: *const CReading,
    buffer: *mut u8,
    capacity: usize,
    written: *mut usize,
) -> i32 {
    guarded(|| {
        if !usable(written) {
            return BAD_CALL;
        }
        // SAFETY: usable, and the caller vouches for it.
        unsafe { written.write(0) };
        if !usable(reading) || !usable(buffer) {
            return BAD_CALL;
        }
        // SAFETY: usable, and the caller vouches for it.
        let Some(stat) = (unsafe { reading.read() }).to_stat() else {
            return BAD_CALL;
        };
        let encoded = encode(&stat);
        if encoded.len() > capacity {
            return BAD_CALL;
        }
        // SAFETY: the buffer has room, checked above; `encoded` is a local and cannot overlap it.
        unsafe {
            buffer.copy_from_nonoverlapping(encoded.as_ptr(), encoded.len());
            written.write(encoded.len());
        }
        OK
    })
}

/// Writes this decoder's answer to a policy, with a terminating zero.
///
/// # Safety
///
/// `name` is null or a zero-terminated string; `answer` is null or valid for writes of `capacity`
/// bytes.
#[no_mangle]
pub unsafe extern "C" fn loadwire_policy(
    name: *const c_char,
    answer: *mut c_char,
    capacity: usize,
) -> i32 {
    guarded(|| {
        if name.is_null() || answer.is_null() {
            return BAD_CALL;
        }
        // SAFETY: not null, and the caller vouches for the terminating zero.
        let name = unsafe { CStr::from_ptr(name) };
        let Some(policy) = name.to_str().ok().and_then(Policy::from_name) else {
            return BAD_CALL;
        };
        let text = policy.ours().name();
        if text.len() >= capacity {
            return BAD_CALL;
        }
        // SAFETY: text and zero fit into the capacity, checked above; the text is static and cannot
        // overlap the caller's buffer.
        unsafe {
            answer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
            answer.add(text.len()).write(0);
        }
        OK
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A panic inside an entry point is a status, and never unwinds into C.
    #[test]
    fn a_panic_is_a_status() {
        assert_eq!(guarded(|| OK), OK);
        assert_eq!(guarded(|| std::panic::resume_unwind(Box::new("no hook runs"))), PANIC);
    }
}
