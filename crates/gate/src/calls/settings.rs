//! Documents of buckets that clients set and get back: policy, tags, versioning, object
//! lock, lifecycle, rules for other origins.

use http::Method;

use crate::calls::{Call, not_allowed, stubs, tags};
use crate::error::{Code, Result};
use crate::xml::{self, Writer};
use crate::{access::Right, cors, lifecycle, lock, policy, reply::Reply};

/// The subresources that have a document.
pub(super) const NAMES: [&str; 6] =
    ["policy", "tagging", "versioning", "object-lock", "lifecycle", "cors"];

impl Call<'_> {
    /// Reads, replaces or removes a document of a bucket.
    pub(super) fn setting(&mut self, method: &Method, bucket: &str, name: &str) -> Result<Reply> {
        let right = if *method == Method::GET { Right::Read } else { Right::Owner };
        let at = self.need(bucket, right)?;
        match *method {
            Method::GET => {
                let Some(text) = at.settings.get(name) else {
                    return stubs::state(name).map(Reply::xml).ok_or_else(|| stubs::unset(name));
                };
                let media = if name == "policy" { "application/json" } else { "application/xml" };
                let reply = Reply { body: text.clone().into_bytes(), ..Reply::new(200) };
                Ok(reply.with("content-type", media))
            }
            Method::PUT => {
                let bytes = self.small_payload(true)?;
                let wrong = |_| Code::MalformedXML.error("document: it is no UTF-8");
                let mut text = String::from_utf8(bytes).map_err(wrong)?;
                match name {
                    "policy" => policy::check(&text, bucket)?,
                    "versioning" => text = versioning(&text)?,
                    "object-lock" => lock::check(&text)?,
                    "lifecycle" => text = lifecycle::parse(&text)?.1,
                    "cors" => cors::check(&text)?,
                    _ => tags::check_bucket(text.as_bytes())?,
                }
                self.gate.set(bucket, name, Some(&text))?;
                Ok(Reply::new(if matches!(name, "policy" | "tagging") { 204 } else { 200 }))
            }
            Method::DELETE if !matches!(name, "versioning" | "object-lock") => {
                self.gate.set(bucket, name, None)?;
                Ok(Reply::new(204))
            }
            _ => Err(not_allowed()),
        }
    }
}

/// Reads what a client wants of versions, and writes it as it is kept.
fn versioning(text: &str) -> Result<String> {
    let document = xml::parse(text.as_bytes(), "VersioningConfiguration")?;
    if document.child("MfaDelete").or(document.child("MFADelete")) == Some("Enabled") {
        return Code::NotImplemented.err("versioning: MfaDelete");
    }
    let status = document.child("Status").unwrap_or_default();
    if !matches!(status, "Enabled" | "Suspended") {
        return Code::MalformedXML.err("versioning: Status is Enabled or Suspended");
    }
    let mut document = Writer::new("VersioningConfiguration");
    document.text("Status", status);
    Ok(String::from_utf8_lossy(&document.finish()).into_owned())
}
