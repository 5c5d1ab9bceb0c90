//! One reading out of the payload of a load message.

use std::io::Read;

use rmp::decode::{read_array_len, read_int, read_marker, read_str_from_slice};
use rmp::Marker;

pub type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Debug)]
pub struct Load {
    pub running: u64,
    pub waiting: u64,
    pub tokens: u64,
    pub capacity: u64,
    pub rank: Option<u64>,
    /// What newer engines say as well.
    pub tail: Option<[u64; 5]>,
}

pub fn decode(payload: &[u8]) -> Result<Load, Error> {
    let mut rest = payload;
    let length = read_array_len(&mut rest)?;
    if length < 6 {
        return Err(format!("{length} elements").into());
    }
    let (tag, behind) = read_str_from_slice(rest).map_err(|error| error.to_string())?;
    if tag != "LoadStat" {
        return Err(format!("tag {tag:?}").into());
    }
    rest = behind;
    let running = count(&mut rest)?;
    let waiting = count(&mut rest)?;
    let tokens = count(&mut rest)?;
    let capacity = count(&mut rest)?;
    let rank = match rest.first() {
        Some(0xc0) => {
            rest = &rest[1..];
            None
        }
        _ => Some(count(&mut rest)?),
    };
    let mut tail = None;
    let mut read = 6;
    if length >= 11 {
        let mut counts = [0; 5];
        for slot in &mut counts {
            *slot = count(&mut rest)?;
        }
        tail = Some(counts);
        read = 11;
    }
    skip(&mut rest, u64::from(length - read))?;
    if !rest.is_empty() {
        return Err(format!("{} bytes behind the array", rest.len()).into());
    }
    Ok(Load { running, waiting, tokens, capacity, rank, tail })
}

fn count(rest: &mut &[u8]) -> Result<u64, Error> {
    read_int(rest).map_err(|error| error.to_string().into())
}

/// Passes over elements that a later engine appended, whatever they are.
fn skip(rest: &mut &[u8], mut elements: u64) -> Result<(), Error> {
    while elements > 0 {
        elements -= 1;
        let marker = read_marker(rest).map_err(|error| format!("{:?}", error.0))?;
        let (bytes, inner) = match marker {
            Marker::FixPos(_) | Marker::FixNeg(_) => (0, 0),
            Marker::Null | Marker::True | Marker::False => (0, 0),
            Marker::U8 | Marker::I8 => (1, 0),
            Marker::U16 | Marker::I16 => (2, 0),
            Marker::U32 | Marker::I32 | Marker::F32 => (4, 0),
            Marker::U64 | Marker::I64 | Marker::F64 => (8, 0),
            Marker::FixStr(length) => (u64::from(length), 0),
            Marker::Str8 | Marker::Bin8 => (length(rest, 1)?, 0),
            Marker::Str16 | Marker::Bin16 => (length(rest, 2)?, 0),
            Marker::Str32 | Marker::Bin32 => (length(rest, 4)?, 0),
            Marker::FixExt1 => (2, 0),
            Marker::FixExt2 => (3, 0),
            Marker::FixExt4 => (5, 0),
            Marker::FixExt8 => (9, 0),
            Marker::FixExt16 => (17, 0),
            Marker::Ext8 => (length(rest, 1)? + 1, 0),
            Marker::Ext16 => (length(rest, 2)? + 1, 0),
            Marker::Ext32 => (length(rest, 4)? + 1, 0),
            Marker::FixArray(length) => (0, u64::from(length)),
            Marker::Array16 => (0, length(rest, 2)?),
            Marker::Array32 => (0, length(rest, 4)?),
            Marker::FixMap(length) => (0, 2 * u64::from(length)),
            Marker::Map16 => (0, 2 * length(rest, 2)?),
            Marker::Map32 => (0, 2 * length(rest, 4)?),
            Marker::Reserved => return Err("the reserved marker".into()),
        };
        let bytes = usize::try_from(bytes)?;
        *rest = rest.get(bytes..).ok_or("cut short")?;
        elements = elements.saturating_add(inner);
    }
    Ok(())
}

fn length(rest: &mut &[u8], bytes: usize) -> Result<u64, Error> {
    let mut big_endian = [0; 8];
    rest.read_exact(&mut big_endian[8 - bytes..])?;
    Ok(u64::from_be_bytes(big_endian))
}
