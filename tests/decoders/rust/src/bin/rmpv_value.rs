//! The dynamic value: read anything, then pick elements out of the array.

use decoders::{named, serve, Fields};
use rmpv::Value;

fn decode(mut payload: &[u8]) -> Result<Fields, String> {
    let value = rmpv::decode::read_value(&mut payload).map_err(|why| why.to_string())?;
    let array = value.as_array().ok_or("not an array")?;
    if array.first().and_then(Value::as_str) != Some("LoadStat") {
        return Err("not a LoadStat".into());
    }
    let count = |index: usize| {
        array
            .get(index)
            .and_then(Value::as_u64)
            .ok_or_else(|| format!("element {index} is not an unsigned integer"))
    };
    let mut values = vec![Some(count(1)?), Some(count(2)?), Some(count(3)?), Some(count(4)?)];
    values.push(array.get(5).and_then(Value::as_u64));
    if array.len() >= 11 {
        for index in 6..11 {
            values.push(Some(count(index)?));
        }
    }
    Ok(named(values))
}

fn main() {
    let policies = [
        ("TrailingBytes", "accept"),
        ("OmittedRank", "accept"),
        ("TagAsBin", "reject"),
        ("CountAboveI64", "accept"),
        ("PartialTail", "older"),
        ("NilTail", "reject"),
    ];
    serve("rust-rmpv", 2, &policies, decode);
}
