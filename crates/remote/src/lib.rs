//! Stores over HTTP as places: buckets of S3 servers ([`s3`]) and folders of HDFS ([`hdfs`]).
//!
//! Their common parts are the modules beside: a fence before writes, tries with pauses, bodies of a
//! known length, options of a place, percent-encoding.
#![forbid(unsafe_code)]

mod fence;
mod http;
mod progress;
mod text;
mod tries;
mod wait;
pub mod hdfs;
pub mod s3;

use fence::{Fence, Fenced, LEASE, LOCK, MAX_LOCK, RENEW, holder, holder_said};
use http::{agent, fill, length};
use progress::Progress;
use text::{encoded, io_error, is_plain_path, options, patience};
use tries::{Tries, random};
use wait::{lock_now_or, lock_within};
