//! Places that hold shards.

use std::sync::Arc;

use kiln_store::Backend;

/// A failure domain that stores shards: a name for messages and a store for bytes.
///
/// ```
/// use std::sync::Arc;
/// use kiln_pool::Node;
/// use kiln_store::MemoryBackend;
/// let node = Node::new("disk-0", Arc::new(MemoryBackend::new()));
/// assert_eq!(node.name, "disk-0");
/// ```
#[derive(Clone, Debug)]
pub struct Node {
    /// Name used in messages and reports.
    pub name: String,
    /// Where its bytes are.
    pub store: Arc<dyn Backend>,
}

impl Node {
    /// A node of this name over this store.
    pub fn new(name: impl Into<String>, store: Arc<dyn Backend>) -> Node {
        Node { name: name.into(), store }
    }

    /// Whether both mean the same place.
    pub(crate) fn is(&self, other: &Node) -> bool {
        let same_store = std::ptr::addr_eq(Arc::as_ptr(&self.store), Arc::as_ptr(&other.store));
        same_store || (self.name == other.name && self.store.place() == other.store.place())
    }
}
