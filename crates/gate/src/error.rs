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
}

impl GateError {
    /// Makes an error of a code and a reason.
    pub fn new(code: Code, message: impl Into<String>) -> GateError {
        GateError { code, message: message.into() }
    }
}

/// Makes the codes, with the status of HTTP that each has.
macro_rules! codes {
    ($($name:ident = $status:literal,)*) => {
        /// Error codes of S3 that the server answers with; the names are the protocol's.
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Code {
            $($name,)*
        }

        impl Code {
            /// Returns the status of HTTP that goes with the code.
            pub fn status(self) -> u16 {
                match self {
                    $(Code::$name => $status,)*
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
    AccessDenied = 403,
    AuthorizationHeaderMalformed = 400,
    AuthorizationQueryParametersError = 400,
    BadDigest = 400,
    BucketAlreadyOwnedByYou = 409,
    BucketNotEmpty = 409,
    EntityTooLarge = 400,
    EntityTooSmall = 400,
    IncompleteBody = 400,
    InternalError = 500,
    InvalidAccessKeyId = 403,
    InvalidArgument = 400,
    InvalidBucketName = 400,
    InvalidDigest = 400,
    InvalidPart = 400,
    InvalidPartOrder = 400,
    InvalidRange = 416,
    InvalidRequest = 400,
    KeyTooLongError = 400,
    MalformedXML = 400,
    MetadataTooLarge = 400,
    MethodNotAllowed = 405,
    MissingContentLength = 411,
    NoSuchBucket = 404,
    NoSuchBucketPolicy = 404,
    NoSuchCORSConfiguration = 404,
    NoSuchKey = 404,
    NoSuchLifecycleConfiguration = 404,
    NoSuchTagSet = 404,
    NoSuchUpload = 404,
    NotImplemented = 501,
    ObjectLockConfigurationNotFoundError = 404,
    OperationAborted = 409,
    PreconditionFailed = 412,
    RequestTimeTooSkewed = 403,
    ServerSideEncryptionConfigurationNotFoundError = 404,
    ServiceUnavailable = 503,
    SignatureDoesNotMatch = 403,
    SlowDown = 503,
    XAmzContentSHA256Mismatch = 400,
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
