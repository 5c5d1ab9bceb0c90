//! Msgpack one header at a time, from the front, with offsets.
//!
//! Nothing is allocated and nothing recurses: nested containers are counted, and a length that the
//! bytes announce is believed only as far as there are bytes.

use rmp::Marker;

/// Why a value could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The bytes ended.
    Truncated,
    /// The byte at this offset is one that msgpack never uses.
    Malformed(usize),
}

/// A value's header: the number of a scalar, the length that follows for everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Unsigned(u64),
    /// A signed format; 0 or more is possible.
    Signed(i64),
    Nil,
    /// Bool and float: read to their end, their value is nobody's business.
    Other,
    /// Bytes of a string.
    Str(u64),
    /// Bytes of binary data, or type and data of an extension.
    Opaque(u64),
    /// Elements.
    Array(u64),
    /// Pairs.
    Map(u64),
}

/// A place in the bytes.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, total: bytes.len() }
    }

    /// The offset of the next byte.
    pub(crate) const fn at(&self) -> usize {
        self.total - self.rest.len()
    }

    /// The bytes that were not read yet.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads an unsigned integer in one of the unsigned formats, or nothing: whatever else stands
    /// here is left to [`head`](Self::head). This is what nearly every element is.
    #[inline]
    pub(crate) fn unsigned(&mut self) -> Option<u64> {
        let (&byte, body) = self.rest.split_first()?;
        let mut body = Self { rest: body, total: 0 };
        let value = match Marker::from_u8(byte) {
            Marker::FixPos(value) => value.into(),
            Marker::U8 => body.u8().ok()?,
            Marker::U16 => body.u16().ok()?,
            Marker::U32 => body.u32().ok()?,
            Marker::U64 => body.u64().ok()?,
            _ => return None,
        };
        self.rest = body.rest;
        Some(value)
    }

    /// Reads the header of an array of up to 15 elements, or nothing.
    #[inline]
    pub(crate) fn small_array(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        match Marker::from_u8(byte) {
            Marker::FixArray(len) => {
                self.rest = rest;
                Some(len)
            }
            _ => None,
        }
    }

    /// Skips exactly these bytes, if they come next.
    #[inline]
    pub(crate) fn accept(&mut self, bytes: &[u8]) -> bool {
        match self.rest.strip_prefix(bytes) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Reads the header of the next value; its body, if it has one, comes next.
    pub(crate) fn head(&mut self) -> Result<Head, Cut> {
        let start = self.at();
        let [byte] = self.take()?;
        Ok(match Marker::from_u8(byte) {
            Marker::FixPos(value) => Head::Unsigned(value.into()),
            Marker::U8 => Head::Unsigned(self.u8()?),
            Marker::U16 => Head::Unsigned(self.u16()?),
            Marker::U32 => Head::Unsigned(self.u32()?),
            Marker::U64 => Head::Unsigned(self.u64()?),
            Marker::FixNeg(value) => Head::Signed(value.into()),
            Marker::I8 => Head::Signed(i8::from_be_bytes(self.take()?).into()),
            Marker::I16 => Head::Signed(i16::from_be_bytes(self.take()?).into()),
            Marker::I32 => Head::Signed(i32::from_be_bytes(self.take()?).into()),
            Marker::I64 => Head::Signed(i64::from_be_bytes(self.take()?)),
            Marker::Null => Head::Nil,
            Marker::False | Marker::True => Head::Other,
            Marker::F32 => self.take::<4>().map(|_| Head::Other)?,
            Marker::F64 => self.take::<8>().map(|_| Head::Other)?,
            Marker::FixStr(len) => Head::Str(len.into()),
            Marker::Str8 => Head::Str(self.u8()?),
            Marker::Str16 => Head::Str(self.u16()?),
            Marker::Str32 => Head::Str(self.u32()?),
            Marker::Bin8 => Head::Opaque(self.u8()?),
            Marker::Bin16 => Head::Opaque(self.u16()?),
            Marker::Bin32 => Head::Opaque(self.u32()?),
            // An extension's type is one byte that its length does not count.
            Marker::FixExt1 => Head::Opaque(2),
            Marker::FixExt2 => Head::Opaque(3),
            Marker::FixExt4 => Head::Opaque(5),
            Marker::FixExt8 => Head::Opaque(9),
            Marker::FixExt16 => Head::Opaque(17),
            Marker::Ext8 => Head::Opaque(self.u8()?.saturating_add(1)),
            Marker::Ext16 => Head::Opaque(self.u16()?.saturating_add(1)),
            Marker::Ext32 => Head::Opaque(self.u32()?.saturating_add(1)),
            Marker::FixArray(len) => Head::Array(len.into()),
            Marker::Array16 => Head::Array(self.u16()?),
            Marker::Array32 => Head::Array(self.u32()?),
            Marker::FixMap(len) => Head::Map(len.into()),
            Marker::Map16 => Head::Map(self.u16()?),
            Marker::Map32 => Head::Map(self.u32()?),
            Marker::Reserved => return Err(Cut::Malformed(start)),
        })
    }

    /// Reads the rest of the value that `head` opened: its body, and all that is nested in it.
    pub(crate) fn finish(&mut self, head: Head) -> Result<(), Cut> {
        match head {
            Head::Unsigned(_) | Head::Signed(_) | Head::Nil | Head::Other => Ok(()),
            Head::Str(len) | Head::Opaque(len) => self.skip(len),
            Head::Array(_) | Head::Map(_) => self.finish_container(head),
        }
    }

    fn finish_container(&mut self, mut head: Head) -> Result<(), Cut> {
        // How many values are still owed. Saturating is exact enough: more values than that cannot
        // fit into memory, so the bytes run out first either way.
        let mut owed: u64 = 0;
        loop {
            match head {
                Head::Unsigned(_) | Head::Signed(_) | Head::Nil | Head::Other => {}
                Head::Str(len) | Head::Opaque(len) => self.skip(len)?,
                Head::Array(len) => owed = owed.saturating_add(len),
                Head::Map(len) => owed = owed.saturating_add(len.saturating_mul(2)),
            }
            match owed.checked_sub(1) {
                None => return Ok(()),
                Some(fewer) => owed = fewer,
            }
            head = self.head()?;
        }
    }

    fn skip(&mut self, len: u64) -> Result<(), Cut> {
        let rest = usize::try_from(len).ok().and_then(|len| self.rest.get(len..));
        self.rest = rest.ok_or(Cut::Truncated)?;
        Ok(())
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Cut> {
        if self.rest.len() < N {
            return Err(Cut::Truncated);
        }
        let (bytes, rest) = self.rest.split_at(N);
        self.rest = rest;
        <[u8; N]>::try_from(bytes).map_err(|_| Cut::Truncated)
    }

    #[inline]
    fn u8(&mut self) -> Result<u64, Cut> {
        self.take().map(|bytes| u8::from_be_bytes(bytes).into())
    }

    #[inline]
    fn u16(&mut self) -> Result<u64, Cut> {
        self.take().map(|bytes| u16::from_be_bytes(bytes).into())
    }

    #[inline]
    fn u32(&mut self) -> Result<u64, Cut> {
        self.take().map(|bytes| u32::from_be_bytes(bytes).into())
    }

    #[inline]
    fn u64(&mut self) -> Result<u64, Cut> {
        self.take().map(u64::from_be_bytes)
    }
}
