//! Msgpack as a tree on the heap: slow, obvious, recursive, straight from the table of the
//! specification, and without a line of the crate.

/// A msgpack value, as the specification lists them.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Int(i128),
    Nil,
    Bool(bool),
    Float(f64),
    Str(Vec<u8>),
    Bin(Vec<u8>),
    Ext,
    List(Vec<Value>),
    Map(Vec<Value>),
}

/// Why no value could be read.
#[derive(Debug)]
pub enum Stop {
    /// The bytes ended.
    Ended,
    /// The byte at this offset is 0xc1.
    Unused(#[allow(dead_code)] usize),
}

type Parsed<T> = Result<(T, usize), Stop>;

/// Reads a big-endian number of `width` bytes.
pub fn unsigned(bytes: &[u8], at: usize, width: usize) -> Parsed<u64> {
    if bytes.len() < at + width {
        return Err(Stop::Ended);
    }
    let mut value = 0u64;
    for index in 0..width {
        value = value * 256 + u64::from(bytes[at + index]);
    }
    Ok((value, at + width))
}

fn signed(bytes: &[u8], at: usize, width: usize) -> Parsed<Value> {
    let (raw, next) = unsigned(bytes, at, width)?;
    let span = 1i128 << (8 * width);
    let value = i128::from(raw);
    Ok((Value::Int(if value >= span / 2 { value - span } else { value }), next))
}

fn blob(bytes: &[u8], at: usize, len: u64) -> Parsed<Vec<u8>> {
    let left = (bytes.len() - at) as u64;
    if len > left {
        return Err(Stop::Ended);
    }
    let end = at + len as usize;
    Ok((bytes[at..end].to_vec(), end))
}

fn list(bytes: &[u8], mut at: usize, len: u64) -> Parsed<Vec<Value>> {
    let mut values = Vec::new();
    for _ in 0..len {
        let (value, next) = parse(bytes, at)?;
        values.push(value);
        at = next;
    }
    Ok((values, at))
}

fn map<A, B>((value, next): (A, usize), wrap: impl FnOnce(A) -> B) -> (B, usize) {
    (wrap(value), next)
}

/// Reads the value at `at`, and tells where the next one starts.
pub fn parse(bytes: &[u8], at: usize) -> Parsed<Value> {
    let Some(&first) = bytes.get(at) else {
        return Err(Stop::Ended);
    };
    let next = at + 1;
    let sized = |width: usize| unsigned(bytes, next, width);
    Ok(match first {
        0x00..=0x7f => (Value::Int(i128::from(first)), next),
        0x80..=0x8f => map(list(bytes, next, 2 * u64::from(first - 0x80))?, Value::Map),
        0x90..=0x9f => map(list(bytes, next, u64::from(first - 0x90))?, Value::List),
        0xa0..=0xbf => map(blob(bytes, next, u64::from(first - 0xa0))?, Value::Str),
        0xc0 => (Value::Nil, next),
        0xc1 => return Err(Stop::Unused(at)),
        0xc2 | 0xc3 => (Value::Bool(first == 0xc3), next),
        0xc4..=0xc6 => {
            let (len, body) = sized(1 << (first - 0xc4))?;
            map(blob(bytes, body, len)?, Value::Bin)
        }
        0xc7..=0xc9 => {
            let (len, body) = sized(1 << (first - 0xc7))?;
            map(blob(bytes, body, len + 1)?, |_| Value::Ext)
        }
        0xca => map(sized(4)?, |bits| Value::Float(f32::from_bits(bits as u32).into())),
        0xcb => map(sized(8)?, |bits| Value::Float(f64::from_bits(bits))),
        0xcc..=0xcf => map(sized(1 << (first - 0xcc))?, |value| Value::Int(value.into())),
        0xd0..=0xd3 => signed(bytes, next, 1 << (first - 0xd0))?,
        0xd4..=0xd8 => map(blob(bytes, next, 1 + (1 << (first - 0xd4)))?, |_| Value::Ext),
        0xd9..=0xdb => {
            let (len, body) = sized(1 << (first - 0xd9))?;
            map(blob(bytes, body, len)?, Value::Str)
        }
        0xdc | 0xdd => {
            let (len, body) = sized(2 << (first - 0xdc))?;
            map(list(bytes, body, len)?, Value::List)
        }
        0xde | 0xdf => {
            let (len, body) = sized(2 << (first - 0xde))?;
            map(list(bytes, body, 2 * len)?, Value::Map)
        }
        0xe0..=0xff => (Value::Int(i128::from(first) - 256), next),
    })
}
