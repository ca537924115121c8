//! Objects at a name and above it, before something is put there.

use crate::Manifest;

/// See [`ObjectWriter::see_way`](crate::ObjectWriter::see_way). It may be out of date a moment
/// later: it spares questions before work that is refused or begun, and what is put asks once more,
/// under the locks, before it takes its place.
#[derive(Clone, Debug)]
pub struct Way {
    pub(crate) name: String,
    /// Object that is there, if it has data.
    pub(crate) object: Option<Manifest>,
    /// A folder in the name that is an object.
    pub(crate) blocked: Option<String>,
    /// Own objects that its folders lack.
    pub(crate) lacking: Vec<String>,
    /// There may be objects below it.
    pub(crate) was_folder: bool,
}

impl Way {
    /// Returns what was there of this name; outer `None`: it is the way of another one.
    pub(crate) fn object(&self, name: &str) -> Option<Option<&Manifest>> {
        (self.name == name).then_some(self.object.as_ref())
    }
}
