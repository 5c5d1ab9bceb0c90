//! A second decoder, slow and obvious, to hold the real one against: it reads everything that can
//! be read into a tree, and judges the tree afterwards.

use super::msgpack::{parse, unsigned, Stop, Value};

/// A refusal: reason code, offset, element.
pub type Fault = (&'static str, usize, Option<u32>);

/// What was read: one entry for each field, `None` for nil.
pub type Fields = Vec<Option<u64>>;

/// Decodes a payload as a reader that knows `known` elements: 6 or 11.
pub fn decode(bytes: &[u8], known: u64) -> Result<Fields, Fault> {
    // The header by hand, since its elements are wanted one at a time.
    let (len, mut at) = match bytes.first() {
        None => return Err(("truncated", 0, None)),
        Some(0xc1) => return Err(("malformed", 0, None)),
        Some(&first @ 0x90..=0x9f) => (u64::from(first - 0x90), 1),
        Some(&first @ (0xdc | 0xdd)) => match unsigned(bytes, 1, 2 << (first - 0xdc)) {
            Ok(header) => header,
            Err(_) => return Err(("truncated", bytes.len(), None)),
        },
        Some(_) => return Err(("not-array", 0, None)),
    };

    // First everything that can be read, then the judgement.
    let mut elements = Vec::new();
    let mut broken = None;
    for index in 0..len {
        let element = Some(index as u32);
        match parse(bytes, at) {
            Ok((value, next)) => {
                elements.push((at, value));
                at = next;
            }
            Err(Stop::Ended) => {
                broken = Some(("truncated", bytes.len(), element));
                break;
            }
            Err(Stop::Unused(offset)) => {
                broken = Some(("malformed", offset, element));
                break;
            }
        }
    }

    let read = if len >= 11 && known >= 11 { 11 } else { 6 };
    let mut fields = Vec::new();
    for index in 0..len {
        let Some((start, value)) = elements.get(index as usize) else {
            break;
        };
        let element = Some(index as u32);
        if index == 0 {
            if !matches!(value, Value::Str(text) if text == b"LoadStat") {
                return Err(("bad-tag", *start, element));
            }
            if len < 6 {
                return Err(("too-short", 0, Some(len as u32)));
            }
        } else if index < read {
            match value {
                Value::Int(value) if *value >= 0 => fields.push(Some(*value as u64)),
                Value::Int(_) => return Err(("out-of-range", *start, element)),
                Value::Nil if index == 5 => fields.push(None),
                _ => return Err(("bad-type", *start, element)),
            }
        }
    }
    if len == 0 {
        return Err(("too-short", 0, Some(0)));
    }
    if let Some(fault) = broken {
        return Err(fault);
    }
    if at < bytes.len() {
        return Err(("trailing-bytes", at, None));
    }
    Ok(fields)
}
