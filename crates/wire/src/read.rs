//! Reading the inside of a message with every access checked.

use thiserror::Error;

/// A message whose inside does not fit its length or its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{message} is damaged: {what}")]
pub struct Malformed {
    /// Name of the message.
    pub message: &'static str,
    /// What is wrong.
    pub what: &'static str,
}

/// A cursor over a message's body.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    message: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a [u8], message: &'static str) -> Self {
        Reader { rest: body, message }
    }

    pub(crate) fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { message: self.message, what }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) =
            self.rest.split_at_checked(count).ok_or_else(|| self.malformed("it ends too early"))?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) =
            self.rest.split_first_chunk().ok_or_else(|| self.malformed("it ends too early"))?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, Malformed> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// Bytes up to a NUL, which is consumed.
    pub(crate) fn cstr(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self
            .rest
            .iter()
            .position(|&byte| byte == 0)
            .ok_or_else(|| self.malformed("a string has no end"))?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Ok(text)
    }

    /// A length (-1 for null) and as many bytes.
    pub(crate) fn value(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length =
                    usize::try_from(length).map_err(|_| self.malformed("a length is negative"))?;
                self.bytes(length).map(Some)
            }
        }
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.malformed("bytes are left over")) }
    }
}

/// Text that should be UTF-8; what is not is replaced.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
