//! The three frames of a load message.

use crate::decode::{decode, Error, Load};

#[derive(Clone, Debug)]
pub struct Message {
    pub sequence: u64,
    pub load: Load,
}

pub fn parse(frames: &[&[u8]]) -> Result<Message, Error> {
    let [topic, sequence, payload] = frames else {
        return Err(format!("{} frames", frames.len()).into());
    };
    // A subscription matches by prefix, so other topics arrive as well.
    if *topic != b"load" {
        return Err("another topic".into());
    }
    let sequence = i64::from_be_bytes((*sequence).try_into()?);
    Ok(Message { sequence: sequence.try_into()?, load: decode(payload)? })
}
