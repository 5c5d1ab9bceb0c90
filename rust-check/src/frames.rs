//! The three frames of one message (rules F1 to F5).

use crate::payload::{decode_as, encode, first_bytes, Encoded};
use crate::refusal::{is_float, Found, Reason, Refusal};
use crate::stat::{LoadStat, Revision};

/// Frame 0 of every message, exactly (rule F2).
pub const TOPIC: &[u8; 4] = b"load";

/// The highest sequence: frame 1 holds a signed 64-bit integer (rule F3).
pub const MAX_SEQUENCE: u64 = i64::MAX as u64;

/// A message that was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Counts the messages of one engine process, from 0 (rule S1). Gaps are legal (rule S2), and a
    /// router never filters by it: a lower number means a restarted engine (rule S3).
    pub sequence: u64,
    /// The reading.
    pub stat: LoadStat,
}

/// Parses the frames of one message as a reader of the newest revision.
///
/// A ZeroMQ subscription matches by prefix, so that frames of a topic like `loadx` arrive as well;
/// they are refused here (rule F2).
///
/// ```
/// let frames: [&[u8]; 3] = [
///     b"load",
///     &[0, 0, 0, 0, 0, 0, 0, 7],
///     b"\x96\xa8LoadStat\x07\x03\xcd\x04\x00\xcd\x20\x00\x02",
/// ];
/// let message = loadwire_check::parse_frames(&frames)?;
/// assert_eq!(message.sequence, 7);
/// assert_eq!(message.stat.num_running_reqs, 7);
/// # Ok::<(), loadwire_check::Refusal>(())
/// ```
///
/// # Errors
///
/// The first frame that is wrong, with its index; a payload's refusal names frame 2 and is that of
/// [`decode`](crate::decode).
pub fn parse_frames<F: AsRef<[u8]>>(frames: &[F]) -> Result<Message, Refusal> {
    parse_frames_as(frames, Revision::LATEST)
}

/// Parses the frames of one message as a reader of `revision`.
///
/// # Errors
///
/// As [`parse_frames`].
pub fn parse_frames_as<F: AsRef<[u8]>>(
    frames: &[F],
    revision: Revision,
) -> Result<Message, Refusal> {
    let [topic, sequence, payload] = frames else {
        let found = Found::Count(frames.len() as u64);
        return Err(Refusal::new(Reason::FrameCount, 0, None, found));
    };
    let (topic, sequence, payload) = (topic.as_ref(), sequence.as_ref(), payload.as_ref());
    if topic != TOPIC {
        let found = Found::Topic {
            len: topic.len(),
            start: first_bytes(topic),
            kv_events: starts_with_time(payload),
        };
        return Err(Refusal::new(Reason::BadTopic, 0, None, found).in_frame(0));
    }
    let Ok(bytes) = <[u8; 8]>::try_from(sequence) else {
        let found = Found::Count(sequence.len() as u64);
        return Err(Refusal::new(Reason::BadSeqLength, 0, None, found).in_frame(1));
    };
    let signed = i64::from_be_bytes(bytes);
    let Ok(sequence) = u64::try_from(signed) else {
        return Err(Refusal::new(Reason::NegativeSeq, 0, None, Found::Integer(signed)).in_frame(1));
    };
    let stat = decode_as(payload, revision).map_err(|refusal| refusal.in_frame(2))?;
    Ok(Message { sequence, stat })
}

/// Whether a payload looks like a batch of the KV-event stream: an array that starts with a time.
fn starts_with_time(payload: &[u8]) -> bool {
    match payload {
        [0x91..=0x9f, first, ..] | [0xdc, _, _, first, ..] => is_float(*first),
        _ => false,
    }
}

/// The frames of one message, as an engine sends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Frame 1, big-endian (rule F3).
    pub sequence: [u8; 8],
    /// Frame 2, canonical (rule W6).
    pub payload: Encoded,
}

impl Frames {
    /// The three frames in the order in which they are sent.
    pub fn as_slices(&self) -> [&[u8]; 3] {
        [TOPIC, &self.sequence, &self.payload]
    }
}

/// Builds the frames of one message. Allocates nothing.
///
/// # Errors
///
/// `negative-seq`: a sequence above [`MAX_SEQUENCE`], which a reader would take as negative.
pub fn build_frames(sequence: u64, stat: &LoadStat) -> Result<Frames, Refusal> {
    match i64::try_from(sequence) {
        Ok(signed) => Ok(Frames { sequence: signed.to_be_bytes(), payload: encode(stat) }),
        Err(_) => {
            let found = Found::Integer(i64::from_be_bytes(sequence.to_be_bytes()));
            Err(Refusal::new(Reason::NegativeSeq, 0, None, found).in_frame(1))
        }
    }
}
