//! The backend: objects under a prefix of a bucket.

use std::sync::{Arc, OnceLock};
use std::{sync::atomic::Ordering, time::Duration};

use crate::{LOCK, encoded, lock_now_or, lock_within, random};
use kiln_store::{
    Append, Backend, Capabilities, Capability, Existing, Extensions, Location, LockAttempt, Locks,
    NewFile, Objects, Operation, PlaceInfo, ReadAt, Result, SERVED_BY, StagedBackend, StoreError,
    Upload, WriteLock, check_name,
};
use parking_lot::Mutex;
use rusty_s3::{S3Action, actions::ListObjectsV2};

use crate::s3::client::{Ask, Client};
use crate::s3::lease::{Lease, Seen};
use crate::s3::read::{Object, head};
use crate::s3::settings::{Access, access, with_credentials};
use crate::{s3::date::milliseconds, s3::place::Place, s3::reply::Reply, s3::upload::Put};

/// The longest object that is copied by one request; longer ones are copied in parts.
const COPY_PART: u64 = 1 << 30;
/// Made and removed to see whether the server heeds conditions.
const PROBE: &str = ".kiln-probe";

/// The objects under a prefix of a bucket, as a place of files; clones share it.
#[derive(Debug, Clone)]
pub struct BucketBackend {
    client: Arc<Client>,
    shared: Arc<Shared>,
    /// It is opened to serve it, and not beside whoever does.
    for_agent: bool,
}

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Seen>,
    /// True if the server refuses conditional puts that must be refused.
    conditional: OnceLock<bool>,
}

impl BucketBackend {
    /// A place as a user writes it. Nothing is sent yet.
    /// Errors: [`StoreError::BadPlace`]: it is not written as it should be, or there are no
    /// credentials.
    pub fn open(place: &Location<'_>) -> Result<BucketBackend> {
        let found = Place::of(place)?;
        let access = access(&found).map_err(|why| place.bad(&why))?;
        BucketBackend::by(place, found, access)
    }

    /// As [`BucketBackend::open`], with these credentials: a key's id and its secret.
    /// Errors: [`StoreError::BadPlace`]: it is not written as it should be.
    pub fn with_credentials(
        place: &Location<'_>,
        key: &str,
        secret: &str,
    ) -> Result<BucketBackend> {
        let found = Place::of(place)?;
        let access = with_credentials(&found, rusty_s3::Credentials::new(key, secret));
        BucketBackend::by(place, found, access)
    }

    fn by(place: &Location<'_>, found: Place, access: Access) -> Result<BucketBackend> {
        let client = Client::new(found, access).map_err(|why| place.bad(&why))?;
        Ok(BucketBackend { client: Arc::new(client), shared: Arc::default(), for_agent: false })
    }

    /// This place, to be served to others by an agent.
    #[must_use]
    pub(crate) fn for_agent(self) -> BucketBackend {
        BucketBackend { for_agent: true, ..self }
    }

    /// Refuses to write beside an agent, whose clients would not be told.
    fn check_unserved(&self) -> Result<()> {
        if self.for_agent {
            return Ok(());
        }
        let Some(who) = StagedBackend::served_by(self)? else { return Ok(()) };
        let why = format!(
            "it is served by {who:?}: write through that agent, kiln://HOST; if it is gone for \
             good, start one with --take-over"
        );
        Err(StoreError::BadPlace { place: self.place(), why })
    }

    /// Makes sure that the server heeds conditions (one that does not would let two writers replace
    /// each other's files) and that nobody serves the place. Asked once, before the first write
    /// that relies on it.
    fn check_conditions(&self, what: &str) -> Result<()> {
        let heeded = match self.shared.conditional.get() {
            Some(heeded) => *heeded,
            None => {
                let heeded = self.heeds_conditions()?;
                if heeded {
                    self.check_unserved()?;
                }
                *self.shared.conditional.get_or_init(|| heeded)
            }
        };
        match heeded {
            true => Ok(()),
            false => Err(StoreError::incapable(
                self.place(),
                Capability::CreateIfAbsent,
                what.to_owned(),
            )),
        }
    }

    /// Tries with an object of its own, and removes it.
    fn heeds_conditions(&self) -> Result<bool> {
        let name = format!("{PROBE}-{:016x}", random());
        let put = |existing, bytes: &[u8]| Put::new(&self.client, &name, existing).put(bytes);
        let first = put(Existing::Keep, b"first");
        let second = first.and_then(|_| match put(Existing::Keep, b"second") {
            Ok(_) => Ok(false),
            Err(error) if error.is_exists() => Ok(true),
            Err(error) => Err(error),
        });
        let removed = self.client.delete(&name);
        let heeded = second?;
        removed?;
        Ok(heeded)
    }

    /// Copies a long object in parts.
    fn copy_parts(&self, from: &str, to: &str, source: &str) -> Result<()> {
        let client = &self.client;
        let len = head(client, Operation::Open, from)?.length.unwrap_or(0);
        let mut put = Put::new(&self.client, to, Existing::Replace);
        let mut at = 0;
        while at < len {
            let end = len.min(at + COPY_PART);
            put.copy_part(source, at..end)?;
            at = end;
        }
        Append::complete(&mut put)
    }
}

impl Backend for BucketBackend {
    fn place(&self) -> String {
        self.client.place.text.clone()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::OBJECTS.and(&[Capability::Durable])
    }

    fn each_name(&self, see: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        let client = &self.client;
        let bad =
            |why: &str| client.error(Operation::List, "", std::io::Error::other(why.to_owned()));
        let mut token: Option<String> = None;
        loop {
            let mut action = client.bucket.list_objects_v2(client.credentials());
            action.with_prefix(&client.place.prefix[..]);
            action.with_delimiter("/");
            if let Some(token) = &token {
                action.with_continuation_token(&token[..]);
            }
            let reply = client.send(&Ask::new(Operation::List, ""), &action, None, |_| false)?;
            let page = ListObjectsV2::parse_response(&reply.text)
                .map_err(|error| bad(&format!("its listing cannot be read: {error}")))?;
            for object in &page.contents {
                let name = object.key.strip_prefix(&client.place.prefix[..]);
                let name = name.ok_or_else(|| bad("its listing has names from elsewhere"))?;
                let ours = name == LOCK || name == SERVED_BY || name.starts_with(PROBE);
                if check_name(name).is_ok() && !ours {
                    see(name)?;
                }
            }
            match page.next_continuation_token {
                None => return Ok(()),
                next if next == token => return Err(bad("its listing does not go on")),
                next => token = next,
            }
        }
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>> {
        check_name(name)?;
        Ok(Box::new(Object::open(&self.client, name)?))
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.client.check_fence()?;
        self.client.delete(name)
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            objects: Some(self),
            locks: Some(self),
            info: Some(self),
            ..Extensions::default()
        }
    }
}

impl Objects for BucketBackend {
    fn create<'a>(&'a self, file: &NewFile<'_>) -> Result<Box<dyn Upload + 'a>> {
        check_name(file.name)?;
        if file.existing != Existing::Replace {
            self.check_conditions(&format!("a new file {:?}", file.name))?;
        }
        Ok(Box::new(Put::new(&self.client, file.name, file.existing)))
    }

    fn write_once(&self, name: &str) -> Result<Box<dyn Append>> {
        check_name(name)?;
        Ok(Box::new(Put::new(&self.client, name, Existing::Replace)))
    }

    fn copy(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        self.client.check_fence()?;
        let client = &self.client;
        let key = client.key(to);
        let source = format!("/{}/{}", client.place.bucket, encoded(&client.key(from), b"/"));
        let mut action = client.bucket.put_object(client.credentials(), &key);
        action.headers_mut().insert("x-amz-copy-source", source.clone());
        let ask = Ask::new(Operation::Rename, from).header("x-amz-copy-source", source.clone());
        let reply = client.send(&ask, &action, None, |reply| reply.status == 400)?;
        if reply.status == 400 {
            // It may be too long for one request.
            return self.copy_parts(from, to, &source);
        }
        match reply.code() {
            "" => Ok(()),
            _ => {
                let reply = Reply { status: 500, ..reply };
                Err(reply.error(Operation::Rename, &client.place.text, from))
            }
        }
    }
}

impl Locks for BucketBackend {
    fn lock(&self, wait: bool) -> Result<Option<WriteLock>> {
        self.check_conditions("keeping other writers out")?;
        lock_now_or(wait, || {
            let Some(guard) = Lease::acquire(&self.client, &self.shared.seen)? else {
                return Ok(None);
            };
            let lock = WriteLock::on(guard);
            // An agent may have begun since the last look. What it does for others it does
            // under this lock, so now it either waits or is seen.
            self.check_unserved()?;
            Ok(Some(lock))
        })
    }

    fn lock_within(&self, time: Duration) -> Result<LockAttempt> {
        lock_within(self, time)
    }

    fn lock_holder(&self) -> Option<String> {
        self.shared.seen.lock().holder.clone()
    }
}

impl PlaceInfo for BucketBackend {
    fn modified(&self, name: &str) -> Result<Option<u64>> {
        check_name(name)?;
        let reply = head(&self.client, Operation::Open, name)?;
        Ok(reply.modified.and_then(|text| milliseconds(&text)))
    }

    fn io_counters(&self) -> (u64, u64) {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.client.reads), count(&self.client.bytes))
    }
}
