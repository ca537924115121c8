//! Errors as C wants them: a negative errno and one line of text.

use kiln_code::CodeError;
use libc::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a call failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub errno: c_int,
    pub message: String,
}

impl Failure {
    /// An argument that cannot be.
    pub(crate) fn invalid(message: impl Into<String>) -> Failure {
        Failure { errno: libc::EINVAL, message: message.into() }
    }
}

impl From<CodeError> for Failure {
    fn from(error: CodeError) -> Failure {
        let errno = match &error {
            CodeError::NotRecoverable { .. } => libc::EIO,
            CodeError::Internal(_) => libc::ENOTRECOVERABLE,
            _ => libc::EINVAL,
        };
        Failure { errno, message: error.to_string() }
    }
}

/// Output for the text of a failure; may be null.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    at: *mut c_char,
    len: usize,
}

impl Message {
    /// # Safety
    /// `at` is null, or `len` bytes may be written there during the call.
    pub(crate) unsafe fn new(at: *mut c_char, len: usize) -> Message {
        Message { at, len }
    }

    fn write(self, text: &str) {
        let Some(room) = self.len.checked_sub(1).filter(|_| !self.at.is_null()) else { return };
        let mut cut = text.len().min(room);
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        // SAFETY: `new` was promised `len` writable bytes, and cut + 1 <= len.
        unsafe {
            self.at.copy_from_nonoverlapping(text.as_ptr().cast(), cut);
            self.at.add(cut).write(0);
        }
    }
}

/// Runs the body of a call: its error, or a panic, becomes a negative errno with a message.
pub(crate) fn guard(message: Message, body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    // A panic leaves nothing behind: handles are immutable, and results go to the caller's memory
    // only as the last thing a body does.
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        let message = "internal error, please report: a panic in the library".to_owned();
        Err(Failure { errno: libc::ENOTRECOVERABLE, message })
    });
    match result {
        Ok(()) => 0,
        Err(failure) => {
            message.write(&failure.message);
            -failure.errno
        }
    }
}

/// The text behind a C string.
///
/// # Safety
/// `text` is null or ends with a zero byte.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::invalid("text: a null pointer"));
    }
    // SAFETY: not null, and ended by zero as promised.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::invalid("text: not UTF-8"))
}

/// Writes a text for the caller, ended by zero.
pub(crate) fn put_text(at: Message, text: &str) -> Result<(), Failure> {
    if at.at.is_null() || at.len <= text.len() {
        let message =
            format!("the text takes {} bytes, there is room for {}", text.len() + 1, at.len);
        return Err(Failure { errno: libc::ERANGE, message });
    }
    at.write(text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(len: usize, body: impl FnOnce() -> Result<(), Failure>) -> (c_int, String) {
        let mut room = vec![0x55_u8; len.max(1)];
        // SAFETY: `room` has at least `len` bytes.
        let message = unsafe { Message::new(room.as_mut_ptr().cast(), len) };
        let code = guard(message, body);
        let end = room.iter().position(|&b| b == 0).unwrap_or(0);
        (code, String::from_utf8(room[..end].to_vec()).unwrap())
    }

    #[test]
    fn messages_are_cut_between_characters() {
        let fail = || Err(Failure::invalid("grün"));
        assert_eq!(told(64, fail), (-libc::EINVAL, "grün".into()));
        assert_eq!(told(5, fail), (-libc::EINVAL, "grü".into()));
        assert_eq!(told(4, fail), (-libc::EINVAL, "gr".into()));
        assert_eq!(told(1, fail), (-libc::EINVAL, "".into()));
        assert_eq!(told(0, fail), (-libc::EINVAL, "".into()));
    }

    #[test]
    fn a_panic_ends_at_the_border() {
        let (code, text) = told(64, || panic!("never across"));
        assert_eq!(code, -libc::ENOTRECOVERABLE);
        assert!(text.contains("internal error"));
    }
}
