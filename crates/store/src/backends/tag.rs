//! Entity tags.

/// A place's name for the bytes of a file (an entity tag); see [`crate::ReadAt::tag`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tag([u8; Tag::MAX]);

impl Tag {
    /// Longest tag in bytes.
    pub const MAX: usize = 64;

    /// A tag as the place writes it; `None`: it is empty, too long, or has other characters than
    /// visible ones of ASCII.
    pub fn new(text: &str) -> Option<Tag> {
        let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        if text.is_empty() || text.len() > Tag::MAX || !plain {
            return None;
        }
        let mut bytes = [0; Tag::MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Some(Tag(bytes))
    }

    /// As the place writes it.
    pub fn text(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(Tag::MAX);
        std::str::from_utf8(&self.0[..end]).unwrap_or("")
    }
}

impl std::fmt::Debug for Tag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}
