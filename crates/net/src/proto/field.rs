//! Encoding and decoding of a message's fields.

use crate::{NetError, Result};

/// Bytes of a text on the wire, at most.
pub const TEXT_MAX: usize = 4096;

/// Something that can be a field of a message.
pub(crate) trait Field: Sized {
    /// Bytes that it takes at least; a list is refused before it is allocated when so many
    /// elements cannot follow.
    const LEAST: usize;

    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads it.
    /// Errors: too few bytes, or bytes that mean nothing.
    fn take(reader: &mut Reader<'_>) -> Result<Self>;
}

/// Reads bytes front to back and never past their end.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next `len` bytes.
    pub fn take_bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(len) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(NetError::protocol("a message ends before its last field")),
        }
    }

    /// The next bytes as an array.
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take_bytes(N)?);
        Ok(array)
    }

    /// Says whether everything was read.
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Says that everything was read.
    pub fn end(&self) -> Result<()> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(NetError::protocol(format!("{left} bytes follow a message's last field"))),
        }
    }
}

macro_rules! numbers {
    ($($type:ident),*) => {
        impl Reader<'_> {$(
            #[doc = concat!("The next bytes as a `", stringify!($type), "`.")]
            pub fn $type(&mut self) -> Result<$type> {
                self.array().map($type::from_le_bytes)
            }
        )*}

        $(impl Field for $type {
            const LEAST: usize = size_of::<$type>();

            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(reader: &mut Reader<'_>) -> Result<Self> {
                reader.$type()
            }
        })*
    };
}

numbers!(u8, u16, u32, u64);

impl Field for bool {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self> {
        match reader.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(NetError::protocol(format!("{other} is neither yes (1) nor no (0)"))),
        }
    }
}

/// A number that may be missing travels as one more than it is; 0: it is missing.
impl Field for Option<u32> {
    const LEAST: usize = u32::LEAST;

    fn put(&self, out: &mut Vec<u8>) {
        self.map_or(0, |number| number.saturating_add(1)).put(out);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(reader.u32()?.checked_sub(1))
    }
}

/// State of a node's share of a placed repair. The numbers are for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// Its assignment is not here as a whole.
    Arriving = 0,
    /// It waits for its start; pieces may arrive already.
    Ready = 1,
    /// At work.
    Running = 2,
    /// All is done and verified.
    Done = 3,
    /// It does nothing any more.
    Failed = 4,
}

impl TaskState {
    const ALL: [TaskState; 5] = [
        TaskState::Arriving,
        TaskState::Ready,
        TaskState::Running,
        TaskState::Done,
        TaskState::Failed,
    ];

    /// Returns whether nothing will change any more.
    pub fn is_over(self) -> bool {
        matches!(self, TaskState::Done | TaskState::Failed)
    }
}

impl Field for TaskState {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self> {
        let number = reader.u8()?;
        let known = TaskState::ALL.into_iter().find(|state| *state as u8 == number);
        known.ok_or_else(|| NetError::protocol(format!("state {number} of a task is unknown")))
    }
}

impl<T: Field> Field for Box<T> {
    const LEAST: usize = T::LEAST;

    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self> {
        T::take(reader).map(Box::new)
    }
}

impl Field for String {
    const LEAST: usize = 2;

    /// A text that is too long is cut: only messages for people can be.
    fn put(&self, out: &mut Vec<u8>) {
        let mut len = self.len().min(TEXT_MAX);
        while !self.is_char_boundary(len) {
            len -= 1;
        }
        (len as u16).put(out);
        out.extend_from_slice(&self.as_bytes()[..len]);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self> {
        let len = usize::from(reader.u16()?);
        if len > TEXT_MAX {
            return Err(NetError::protocol(format!("a text of {len} bytes, {TEXT_MAX} at most")));
        }
        let text = std::str::from_utf8(reader.take_bytes(len)?);
        text.map(str::to_owned).map_err(|_| NetError::protocol("a text that is not UTF-8"))
    }
}

impl<const N: usize> Field for [u8; N] {
    const LEAST: usize = N;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self> {
        reader.array()
    }
}

impl<T: Field> Field for Vec<T> {
    const LEAST: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self> {
        let count = reader.u32()? as usize;
        if count.saturating_mul(T::LEAST.max(1)) > reader.rest.len() {
            return Err(NetError::protocol(format!("a list of {count} is longer than its bytes")));
        }
        (0..count).map(|_| T::take(reader)).collect()
    }
}
