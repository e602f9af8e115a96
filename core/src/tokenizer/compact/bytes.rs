//! Numbers at the front of a slice that may end anywhere.

/// The bytes that have not been read.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (array, rest) = self.0.split_first_chunk::<N>().ok_or("it ends within its settings")?;
        self.0 = rest;
        Ok(*array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, String> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, String> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads a text of at most 255 bytes behind its length.
    pub(super) fn text(&mut self) -> Result<&'a str, String> {
        let length = usize::from(self.u8()?);
        let (text, rest) = self.0.split_at_checked(length).ok_or("it ends within its settings")?;
        self.0 = rest;
        std::str::from_utf8(text).map_err(|_| "its prefix is not UTF-8".into())
    }

    /// Returns what is left, which must have this length.
    pub(super) fn rest(self, length: usize) -> Result<&'a [u8], String> {
        let got = self.0.len();
        if got == length {
            Ok(self.0)
        } else {
            Err(format!("it promises {length} bytes of tokens and has {got}"))
        }
    }
}
