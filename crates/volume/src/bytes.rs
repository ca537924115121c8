//! Numbers in bytes that come from disks: nothing is read that is not there.

/// Reads numbers, one after the other.
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields(bytes)
    }

    /// The next bytes; `None`: there are not so many.
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (now, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(now)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends numbers.
pub(crate) trait Push {
    fn put32(&mut self, value: u32);
    fn put64(&mut self, value: u64);
}

impl Push for Vec<u8> {
    fn put32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
}
