//! Errors, as S3 names them.

use std::fmt;

use kiln_stripe::PoolError;

/// Result of an operation of this crate.
pub type Result<T, E = GateError> = std::result::Result<T, E>;

/// An error that a client of S3 knows: a code, and the reason in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct GateError {
    /// The code by which clients act.
    pub code: Code,
    /// The reason, for people.
    pub message: String,
    /// Id of the delete marker that was found instead of an object.
    pub marker: Option<String>,
    /// Elements that S3 has beside the message.
    pub(crate) details: Vec<(&'static str, String)>,
}

impl GateError {
    /// Makes an error of a code and a reason.
    pub fn new(code: Code, message: impl Into<String>) -> GateError {
        GateError { code, message: message.into(), marker: None, details: Vec::new() }
    }

    /// Adds an element that S3 has beside the message.
    pub(crate) fn with(mut self, name: &'static str, value: impl ToString) -> GateError {
        self.details.push((name, value.to_string()));
        self
    }

    /// Names the argument that is invalid, and its value.
    pub(crate) fn argument(self, name: &str, value: &str) -> GateError {
        self.with("ArgumentName", name).with("ArgumentValue", value)
    }

    /// Returns whether the message is one of S3's: ours name a thing before a colon first.
    pub(crate) fn is_sentence(&self) -> bool {
        let word = self.message.split(' ').next().unwrap_or_default();
        word.starts_with(|letter: char| letter.is_ascii_uppercase()) && !word.ends_with(':')
    }
}

/// Makes the codes, with the status of HTTP that each has, and S3's sentence where there is one.
macro_rules! codes {
    ($($name:ident = $status:literal $($text:literal)?,)*) => {
        /// Error codes of S3 that the server answers with; the names are the protocol's.
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Code {
            $($name,)*
        }

        impl Code {
            /// Makes an error of the code, for a reason.
            pub(crate) fn error(self, why: impl Into<String>) -> GateError {
                GateError::new(self, why)
            }

            /// Fails with the code, for a reason.
            pub(crate) fn err<T>(self, why: impl Into<String>) -> Result<T> {
                Err(self.error(why))
            }

            /// Returns the status of HTTP that goes with the code.
            pub fn status(self) -> u16 {
                match self {
                    $(Code::$name => $status,)*
                }
            }

            /// Returns the sentence that S3 has for the code, if it is always the same.
            pub(crate) fn sentence(self) -> Option<&'static str> {
                match self {
                    $($(Code::$name => Some($text),)?)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for Code {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Code::$name => stringify!($name),)*
                })
            }
        }
    };
}

codes! {
    AccessDenied = 403 "Access Denied.", AccessForbidden = 403,
    AuthorizationHeaderMalformed = 400, AuthorizationQueryParametersError = 400,
    BadDigest = 400, BadRequest = 400, InternalError = 500, InvalidArgument = 400,
    InvalidRequest = 400, InvalidTag = 400, MalformedPolicy = 400,
    NoSuchPublicAccessBlockConfiguration = 404, NoSuchWebsiteConfiguration = 404 "The specified \
        bucket does not have a website configuration",
    NotImplemented = 501, OperationAborted = 409, ReplicationConfigurationNotFoundError = 404,
    ServerSideEncryptionConfigurationNotFoundError = 404, ServiceUnavailable = 503, SlowDown = 503,
    AccessControlListNotSupported = 400 "The bucket does not allow ACLs",
    BucketAlreadyExists = 409 "The requested bucket name is not available. The bucket namespace \
        is shared by all users of the system. Please select a different name and try again.",
    BucketAlreadyOwnedByYou = 409 "Your previous request to create the named bucket succeeded and \
        you already own it.",
    InvalidBucketState = 409 "The request is not valid with the current state of the bucket.",
    InvalidRetentionPeriod = 400, NoSuchObjectLockConfiguration = 404 "The specified object does \
        not have a ObjectLock configuration.",
    BucketNotEmpty = 409 "The bucket you tried to delete is not empty.",
    EntityTooLarge = 400 "Your proposed upload exceeds the maximum allowed object size.",
    EntityTooSmall = 400 "Your proposed upload is smaller than the minimum allowed size",
    IncompleteBody = 400 "The request body terminated unexpectedly",
    InvalidAccessKeyId = 403 "The AWS Access Key Id you provided does not exist in our records.",
    InvalidBucketName = 400 "The specified bucket is not valid.",
    InvalidChunkSizeError = 400,
    InvalidDigest = 400 "The Content-Md5 you specified is not valid.",
    InvalidPart = 400 "One or more of the specified parts could not be found.  The part may not \
        have been uploaded, or the specified entity tag may not match the part's entity tag.",
    InvalidPartNumber = 416 "The requested partnumber is not satisfiable.",
    InvalidPartOrder = 400 "The list of parts was not in ascending order. Parts must be ordered \
        by part number.",
    InvalidRange = 416 "The requested range is not satisfiable",
    InvalidRedirectLocation = 400 "The website redirect location must have a prefix of \
        'http://' or 'https://' or '/'.",
    InvalidToken = 400 "The provided token is malformed or otherwise invalid.",
    KeyTooLongError = 400 "Your key is too long",
    MalformedTrailerError = 400 "The request contained trailing data that was not well-formed or \
        did not conform to our published schema.",
    MalformedXML = 400 "The XML you provided was not well-formed or did not validate against our \
        published schema.",
    MetadataTooLarge = 400 "Your metadata headers exceed the maximum allowed metadata size",
    MethodNotAllowed = 405 "The specified method is not allowed against this resource.",
    MissingContentLength = 411 "You must provide the Content-Length HTTP header.",
    NoSuchBucket = 404 "The specified bucket does not exist.",
    NoSuchBucketPolicy = 404 "The bucket policy does not exist.",
    NoSuchCORSConfiguration = 404 "The CORS configuration does not exist",
    NoSuchKey = 404 "The specified key does not exist.",
    NoSuchLifecycleConfiguration = 404 "The lifecycle configuration does not exist",
    NoSuchTagSet = 404 "The TagSet does not exist.",
    NoSuchVersion = 404 "The specified version does not exist.",
    NoSuchUpload = 404 "The specified multipart upload does not exist. The upload ID may be \
        invalid, or the upload may have been aborted or completed.",
    ObjectLockConfigurationNotFoundError = 404 "Object Lock configuration does not exist for this \
        bucket",
    PreconditionFailed = 412 "At least one of the pre-conditions you specified did not hold.",
    RequestTimeout = 400 "Your socket connection to the server was not read from or written to \
        within the timeout period. Idle connections will be closed.",
    RequestTimeTooSkewed = 403 "The difference between the request time and the server's time is \
        too large.",
    SignatureDoesNotMatch = 403 "The request signature we calculated does not match the signature \
        you provided. Check your key and signing method.",
    XAmzContentSHA256Mismatch = 400 "The provided 'x-amz-content-sha256' header does not match \
        what was computed.",
}

impl From<PoolError> for GateError {
    fn from(error: PoolError) -> GateError {
        let code = match &error {
            PoolError::NoObject { .. } => Code::NoSuchKey,
            PoolError::Conflict { .. } | PoolError::Exists { .. } => Code::OperationAborted,
            PoolError::Locked { .. } | PoolError::MapChanged { .. } => Code::SlowDown,
            PoolError::Uncertain { .. }
            | PoolError::NoNodes { .. }
            | PoolError::Unavailable { .. }
            | PoolError::Refused { .. } => Code::ServiceUnavailable,
            _ => Code::InternalError,
        };
        GateError::new(code, error.to_string())
    }
}
