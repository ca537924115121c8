//! Documents of buckets that clients set and get back: policy, tags, versioning.

use http::Method;

use crate::access::Right;
use crate::calls::{Call, not_allowed, stubs, tags};
use crate::error::{Code, GateError, Result};
use crate::policy;
use crate::reply::Reply;
use crate::xml::{self, Writer};

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
                let wrong = |_| GateError::new(Code::MalformedXML, "document: it is no UTF-8");
                let mut text = String::from_utf8(bytes).map_err(wrong)?;
                match name {
                    "policy" => policy::check(&text, bucket)?,
                    "versioning" => text = versioning(&text)?,
                    _ => tags::check_bucket(text.as_bytes())?,
                }
                self.gate.set(bucket, name, Some(&text))?;
                Ok(Reply::new(if name == "versioning" { 200 } else { 204 }))
            }
            Method::DELETE if name != "versioning" => {
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
        return Err(GateError::new(Code::NotImplemented, "versioning: MfaDelete"));
    }
    let status = document.child("Status").unwrap_or_default();
    if !matches!(status, "Enabled" | "Suspended") {
        let why = "versioning: Status is Enabled or Suspended";
        return Err(GateError::new(Code::IllegalVersioningConfigurationException, why));
    }
    let mut document = Writer::new("VersioningConfiguration");
    document.text("Status", status);
    Ok(String::from_utf8_lossy(&document.finish()).into_owned())
}
