//! The one way from a place as users write it to its [`Backend`].
//!
//! Another backend is one file beside this one and one row of [`crate::BACKENDS`]; one that lives
//! in another crate is a row that the caller adds.

use super::{Backend, direct::ReadMode};
use crate::{Result, StoreError};
use std::{path::Path, sync::Arc};

/// Separator of the scheme and the rest.
const SEPARATOR: &str = "://";
/// The scheme of folders, for places without one.
const FOLDER: &str = "file";
/// A folder as a place.
pub(super) const FOLDER_EXAMPLE: &str = "file:///folder";

/// A place as a user writes it: `file:///disk0`, `kiln://host0`, or the path of a folder.
///
/// A text with `://` in it is never the path of a folder, so that a slip of the pen makes none;
/// except if it begins with `.` or `/`, as in `./a://b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location<'a> {
    /// All of it, as written.
    pub text: &'a Path,
    /// The part before `://`; of a path: `file`.
    pub scheme: &'a str,
    /// The part behind it; of a path: all.
    pub rest: &'a Path,
}

impl<'a> Location<'a> {
    /// Takes a text apart; any text is a location, whether or not its scheme is known.
    pub fn of(text: &'a Path) -> Location<'a> {
        let is_path = |text: &str| text.starts_with(['.', '/']);
        let split = text.to_str().filter(|text| !is_path(text));
        match split.and_then(|text| text.split_once(SEPARATOR)) {
            Some((scheme, rest)) => Location { text, scheme, rest: rest.as_ref() },
            None => Location { text, scheme: FOLDER, rest: text },
        }
    }

    /// The folder or file of this machine that is meant.
    /// Errors: [`StoreError::UnknownScheme`] where it is not on this machine,
    /// [`StoreError::BadPlace`] where nothing is named.
    pub fn local(&self) -> Result<&'a Path> {
        if self.scheme != FOLDER {
            return Err(self.unknown(&[FOLDER_EXAMPLE]));
        }
        if self.rest.as_os_str().is_empty() {
            return Err(self.bad("it names no folder"));
        }
        Ok(self.rest)
    }

    /// The refusal of a place that is not written as its kind wants it.
    pub fn bad(&self, why: &str) -> StoreError {
        StoreError::BadPlace { place: self.text.display().to_string(), why: why.to_owned() }
    }

    fn unknown(&self, known: &[&str]) -> StoreError {
        StoreError::UnknownScheme {
            place: self.text.display().to_string(),
            scheme: format!("{}{SEPARATOR}", self.scheme),
            known: known.join(", "),
        }
    }
}

/// Treatment of a place that is not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Absent {
    /// It is an error.
    #[default]
    Refuse,
    /// It is made.
    Create,
    /// It counts as empty and is made by the first write or lock, so that a command that is
    /// refused, or only reads, makes nothing. If it is still empty in the end, it is removed.
    CreateWhenWritten,
}

/// Options of opening a place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Opening {
    /// Treatment of an absent place; places of other machines are not looked at before they
    /// are used, and are never made.
    pub absent: Absent,
    /// Way of reading folders of this machine.
    pub reads: ReadMode,
    /// True if nothing outside of a folder may be reached through it: a symbolic link in it is then
    /// no file. For folders that are served to others.
    pub confined: bool,
}

/// A kind of places: a row of the table that [`open_place`] looks into.
pub trait BackendKind: Sync {
    /// One example for each scheme that it serves: what is before `://` is the scheme.
    fn examples(&self) -> &'static [&'static str];

    /// One line on what it is.
    fn about(&self) -> &'static str;

    /// Opens a place with one of its schemes.
    /// Errors: [`StoreError::BadPlace`] for what cannot be such a place; those of the place itself.
    fn open(&self, place: &Location<'_>, opening: Opening) -> Result<Arc<dyn Backend>>;
}

/// Opens a place by the row of its scheme.
/// Errors: [`StoreError::UnknownScheme`], which lists the known ones; those of
/// [`BackendKind::open`].
pub fn open_place(
    kinds: &[&dyn BackendKind],
    place: &Path,
    opening: Opening,
) -> Result<Arc<dyn Backend>> {
    let location = Location::of(place);
    let serves = |kind: &&&dyn BackendKind| {
        let mut schemes = kind.examples().iter().filter_map(|text| text.split_once(SEPARATOR));
        schemes.any(|(scheme, _)| scheme == location.scheme)
    };
    let Some(kind) = kinds.iter().find(serves) else {
        let known: Vec<&str> = kinds.iter().flat_map(|kind| kind.examples()).copied().collect();
        return Err(location.unknown(&known));
    };
    kind.open(&location, opening)
}
