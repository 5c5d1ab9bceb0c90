//! What the decoder answers, as the JSON that vectors and the testee protocol share.

use loadwire_check::{decode_as, parse_frames_as, LoadStat, Message, Refusal, Revision};
use serde_json::{json, Map, Value};

/// The decoder's answer to one payload: what is accepted, or what is refused.
pub fn payload(bytes: &[u8], revision: Revision) -> Result<Value, Value> {
    decode_as(bytes, revision).map(|stat| accepted(&stat)).map_err(|why| refused(&why))
}

/// The decoder's answer to one message.
pub fn frames(frames: &[Vec<u8>], revision: Revision) -> Result<Value, Value> {
    parse_frames_as(frames, revision)
        .map(|Message { sequence, stat }| {
            let mut accepted = accepted(&stat);
            accepted["sequence"] = json!(sequence.to_string());
            accepted
        })
        .map_err(|why| refused(&why))
}

/// Counts are decimal strings: JSON numbers lose what is above 2^53 in many a reader.
fn accepted(stat: &LoadStat) -> Value {
    let revision = stat.revision();
    let names = revision.fields().iter().map(ToString::to_string);
    let values = stat.fields().map(|field| field.map(|value| value.to_string()));
    let value: Map<_, _> = names.zip(values.map(Value::from)).collect();
    json!({"revision": revision.number(), "value": value})
}

fn refused(why: &Refusal) -> Value {
    json!({
        "reason": why.reason.code(),
        "rule": why.rule(),
        "offset": why.offset,
        "element": why.element,
        "frame": why.frame,
    })
}

/// Bytes as a hexadecimal string.
#[cfg(feature = "live")]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a hexadecimal string.
pub fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.as_bytes();
    if digits.len() % 2 != 0 {
        return Err(format!("an odd number of hexadecimal digits: {}", digits.len()));
    }
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .ok_or_else(|| format!("no hexadecimal digit: {}", byte.escape_ascii()))
    };
    digits.chunks_exact(2).map(|pair| Ok((digit(pair[0])? * 16 + digit(pair[1])?) as u8)).collect()
}

/// The frames of a list of hexadecimal strings.
pub fn unhex_all(texts: &[Value]) -> Result<Vec<Vec<u8>>, String> {
    texts.iter().map(|text| unhex(text.as_str().ok_or("a frame that is no string")?)).collect()
}
