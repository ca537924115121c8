//! Lifecycles of buckets: objects and versions that expire, uploads that are aborted.

use crate::error::{Code, GateError, Result};
use crate::record::{BucketRecord, ObjectRecord};
use crate::versions::{Place, id_of};
use crate::xml::{self, Element};
use crate::{gate::Gate, multipart::UploadOf, names, object::Conditions, times};

const DAY_MS: u64 = 86_400_000;
/// Most rules of a bucket.
const MAX_RULES: usize = 1000;
/// Objects that are looked at together.
const TOGETHER: usize = 1000;

/// A bucket by name and record.
type Of<'a> = (&'a str, &'a BucketRecord);

/// The time from which on an object is expired.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Due {
    /// So many ms after it was made, at the midnight behind that.
    After(u64),
    /// A time in ms since 1970.
    From(u64),
}

/// A rule that is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    id: String,
    prefix: String,
    tags: Vec<(String, String)>,
    greater: Option<u64>,
    less: Option<u64>,
    expires: Option<Due>,
    /// Delete markers go that are all that is left of an object.
    markers: bool,
    /// Versions go so long after they were replaced.
    noncurrent_ms: Option<u64>,
    /// Versions that stay whatever their age is.
    newer: usize,
    abort_ms: Option<u64>,
}

fn malformed(why: &str) -> GateError {
    Code::MalformedXML.error(format!("lifecycle: {why}"))
}

fn invalid(why: &str) -> GateError {
    Code::InvalidArgument.error(format!("lifecycle: {why}"))
}

/// The midnight at or behind a time.
fn midnight(ms: u64) -> u64 {
    ms.div_ceil(DAY_MS) * DAY_MS
}

/// Reads a client's document; rules that are disabled are left out. Rules without an ID get one.
/// Errors: [`Code::MalformedXML`], [`Code::InvalidArgument`]; [`Code::NotImplemented`]: it wants
/// more.
pub(crate) fn parse(text: &str) -> Result<(Vec<Rule>, String)> {
    let mut document = xml::parse(text.as_bytes(), "LifecycleConfiguration")?;
    let (mut rules, mut ids) = (Vec::new(), Vec::new());
    for (at, element) in document.children.iter_mut().enumerate() {
        let enabled = match element.child("Status") {
            Some("Enabled") => true,
            Some("Disabled") => false,
            _ => return Err(malformed("Status is Enabled or Disabled")),
        };
        if element.child("ID").is_none_or(str::is_empty) {
            element.children.retain(|child| child.name != "ID");
            let text = format!("rule-{at}-{}", &crate::gate::fresh_id()[..8]);
            element.children.push(Element { name: "ID".into(), text, children: Vec::new() });
        }
        let rule = of_element(element)?;
        ids.push(rule.id.clone());
        rules.extend(enabled.then_some(rule));
    }
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) || ids.iter().any(|id| id.len() > 255) {
        return Err(invalid("two rules have one ID, or one has more than 255 letters"));
    }
    match document.children.len() {
        1..=MAX_RULES => Ok((rules, document.to_text())),
        _ => Err(malformed("there are no or too many rules")),
    }
}

/// A number that is positive.
fn number(element: &Element, name: &str, most: u64) -> Result<Option<u64>> {
    let Some(text) = element.child(name) else { return Ok(None) };
    match text.parse::<u64>() {
        Ok(number) if (1..=most).contains(&number) => Ok(Some(number)),
        _ => Err(invalid(&format!("{name} is 1 to {most}"))),
    }
}

fn days(element: &Element, name: &str) -> Result<Option<u64>> {
    Ok(number(element, name, 36_500)?.map(|days| days * DAY_MS))
}

fn of_element(element: &Element) -> Result<Rule> {
    let mut rule = Rule::default();
    let mut acts = false;
    for part in &element.children {
        acts |= !matches!(part.name.as_str(), "ID" | "Status" | "Prefix" | "Filter");
        match part.name.as_str() {
            "ID" => part.text.trim().clone_into(&mut rule.id),
            "Status" => {}
            "Prefix" => rule.prefix.clone_from(&part.text),
            "Filter" => filter(part, &mut rule)?,
            "Expiration" => {
                rule.markers = part.child("ExpiredObjectDeleteMarker") == Some("true");
                rule.expires = days(part, "Days")?.map(Due::After);
                if let Some(date) = part.child("Date") {
                    let date = times::parse_iso(date).filter(|ms| ms % DAY_MS == 0);
                    let date = date.ok_or_else(|| malformed("Date is no midnight, UTC"))?;
                    if rule.expires.replace(Due::From(date)).is_some() {
                        return Err(malformed("Expiration has either Days or Date"));
                    }
                }
            }
            "AbortIncompleteMultipartUpload" => {
                rule.abort_ms = days(part, "DaysAfterInitiation")?;
            }
            "NoncurrentVersionExpiration" => {
                rule.noncurrent_ms = days(part, "NoncurrentDays")?;
                let newer = number(part, "NewerNoncurrentVersions", 100)?;
                rule.newer = newer.map_or(0, |newer| newer as usize);
            }
            other => {
                return Code::NotImplemented
                    .err(format!("lifecycle: {other}: the server does not have it"));
            }
        }
    }
    if acts { Ok(rule) } else { Err(malformed("a rule has no action")) }
}

fn filter(element: &Element, rule: &mut Rule) -> Result<()> {
    for part in &element.children {
        let size = || part.text.trim().parse::<u64>().map_err(|_| invalid("a size is no number"));
        match part.name.as_str() {
            "And" => filter(part, rule)?,
            "Prefix" => rule.prefix.clone_from(&part.text),
            "Tag" => {
                let text = |name| part.child(name).unwrap_or_default().to_owned();
                rule.tags.push((text("Key"), text("Value")));
            }
            "ObjectSizeGreaterThan" => rule.greater = Some(size()?),
            "ObjectSizeLessThan" => rule.less = Some(size()?),
            _ => return Err(malformed("a filter has an element that is unknown")),
        }
    }
    Ok(())
}

impl Rule {
    fn fits(&self, key: &str, object: &ObjectRecord) -> bool {
        let tagged = |(key, value): &(String, String)| object.tags.get(key) == Some(value);
        key.starts_with(&self.prefix)
            && self.tags.iter().all(tagged)
            && self.greater.is_none_or(|size| object.size > size)
            && self.less.is_none_or(|size| object.size < size)
    }

    /// The time from which on an object in force is expired.
    fn due_ms(&self, key: &str, object: &ObjectRecord) -> Option<u64> {
        let due = self.expires.filter(|_| !object.marker && self.fits(key, object))?;
        Some(match due {
            Due::After(ms) => midnight(object.modified_ms + ms),
            Due::From(ms) => ms,
        })
    }

    /// Returns whether the marker in force goes, after which nothing is left.
    fn ends_marker(&self, key: &str, object: &ObjectRecord, now_ms: u64) -> bool {
        let old = match self.expires {
            Some(Due::After(ms)) => midnight(object.modified_ms + ms) <= now_ms,
            _ => self.markers,
        };
        object.marker && object.history.is_empty() && old && key.starts_with(&self.prefix)
    }

    /// Returns whether a version goes that was replaced at a time, and that so many followed.
    fn ends_version(
        &self,
        key: &str,
        (object, since_ms, newer): (&ObjectRecord, u64, usize),
        now_ms: u64,
    ) -> bool {
        let old = self.noncurrent_ms.is_some_and(|ms| midnight(since_ms + ms) <= now_ms);
        old && newer >= self.newer && self.fits(key, object)
    }
}

/// Returns the header that says when an object expires, and by which rule.
pub(crate) fn expiry(at: &BucketRecord, key: &str, object: &ObjectRecord) -> Option<String> {
    let (rules, _) = parse(at.settings.get("lifecycle")?).ok()?;
    let due = rules.iter().filter_map(|rule| Some((rule.due_ms(key, object)?, &rule.id)));
    let (ms, id) = due.min()?;
    Some(format!("expiry-date=\"{}\", rule-id=\"{id}\"", times::http(ms)))
}

impl Gate {
    /// Carries out the lifecycles of all buckets; returns how many objects, versions and uploads
    /// went.
    pub fn expire(&self, now_ms: u64) -> Result<usize> {
        let mut gone = 0;
        for bucket in self.buckets()? {
            let at = match self.bucket(&bucket.name) {
                Err(error) if error.code == Code::NoSuchBucket => continue,
                at => at?,
            };
            let Some(document) = at.settings.get("lifecycle") else { continue };
            let (rules, _) = parse(document)?;
            gone += self.expire_objects((&bucket.name, &at), &rules, now_ms)?;
            for rule in rules.iter().filter(|rule| rule.abort_ms.is_some()) {
                gone += self.abort_uploads((&bucket.name, &at), rule, now_ms)?;
            }
        }
        Ok(gone)
    }

    fn expire_objects(&self, (bucket, at): Of<'_>, rules: &[Rule], now_ms: u64) -> Result<usize> {
        let root = names::records(&at.id);
        let (mut gone, mut start) = (0, root.clone());
        loop {
            let mut names = Vec::new();
            self.each((&root, Some(&start), true), |listed| {
                names.push(listed.name);
                Ok(names.len() < TOGETHER)
            })?;
            let records = self.see_all::<ObjectRecord>(&names)?;
            for (name, record) in names.iter().zip(records) {
                let key = name.strip_prefix(&root).and_then(names::decode);
                if let (Some(key), Some(record)) = (key, record) {
                    gone += self.expire_object((bucket, at, &key), &record, rules, now_ms)?;
                }
            }
            match names.last() {
                Some(last) if names.len() == TOGETHER => start = format!("{last}\0"),
                _ => return Ok(gone),
            }
        }
    }

    /// Expires one object and its versions.
    fn expire_object(
        &self,
        place: Place<'_>,
        record: &ObjectRecord,
        rules: &[Rule],
        now_ms: u64,
    ) -> Result<usize> {
        let (_, at, key) = place;
        let mut ends = Vec::new();
        if record.history.iter().any(|_| rules.iter().any(|rule| rule.noncurrent_ms.is_some())) {
            let name = |word: &String| names::version(&at.id, key, word);
            let names: Vec<String> = record.history.iter().map(name).collect();
            let (mut since, mut newer) = (record.modified_ms, 0);
            for (word, old) in record.history.iter().zip(self.see_all(&names)?).rev() {
                let Some(old): Option<ObjectRecord> = old else { continue };
                let ended = |rule: &Rule| rule.ends_version(key, (&old, since, newer), now_ms);
                if rules.iter().any(ended) {
                    ends.push(id_of(word).to_owned());
                }
                (since, newer) = (old.modified_ms, newer + 1);
            }
        }
        if rules.iter().any(|rule| rule.ends_marker(key, record, now_ms)) {
            ends.push(record.id().to_owned());
        }
        let mut gone = 0;
        for id in ends {
            match self.delete_object(place, Some(&id), &Conditions::default(), false) {
                Ok(_) => gone += 1,
                // It is locked.
                Err(error) if error.code == Code::AccessDenied => {}
                Err(error) => return Err(error),
            }
        }
        let due = |object: &ObjectRecord| {
            let due = |rule: &Rule| rule.due_ms(key, object).is_some_and(|due| due <= now_ms);
            rules.iter().any(due)
        };
        if due(record) && self.delete_if(place, due)? {
            gone += 1;
        }
        Ok(gone)
    }

    fn abort_uploads(&self, (bucket, at): Of<'_>, rule: &Rule, now_ms: u64) -> Result<usize> {
        let Some(age) = rule.abort_ms else { return Ok(0) };
        let mut gone = 0;
        for (key, id, upload) in self.uploads(at, &rule.prefix)? {
            let tagged = rule.tags.iter().all(|(key, value)| upload.tags.get(key) == Some(value));
            if midnight(upload.begun_ms + age) <= now_ms && tagged && !upload.completing {
                match self.abort(UploadOf { bucket, at, key: &key, id: &id }) {
                    Ok(()) => gone += 1,
                    Err(error)
                        if matches!(error.code, Code::NoSuchUpload | Code::OperationAborted) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(gone)
    }
}
