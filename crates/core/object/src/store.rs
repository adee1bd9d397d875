//! The seam between a volume and the service that stores its objects.
//!
//! The trait asks only for what every supported service has: a create-only PUT of a
//! whole object, GET of an object or a range, LIST and DELETE. No object is ever
//! overwritten.

use std::fmt;
use std::time::SystemTime;

/// The reason for which a request to a store failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// There is no object of this name (404).
    Missing,
    /// The store answered that an object of this name exists (409, 412). The object may
    /// be the caller's own, created by a request whose answer was lost, and some stores
    /// answer so while two requests race: the caller reads the object to find out.
    Exists,
    /// The request was rejected and would be rejected again: no such bucket, wrong
    /// credentials, no permission, a request the service does not support.
    Rejected,
    /// The store did not answer, or asked for a later attempt (time-out, connection
    /// lost, 429, 5xx). The request may have taken effect.
    Unavailable,
    /// The answer was not what was asked for: too short, too long, not decodable.
    Malformed,
}

/// A failed request: the store, the operation, the object and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{store}: {operation} of {object} failed: {message}")]
pub struct StoreError {
    /// The store's name for people: its URL, without credentials.
    pub store: String,
    /// The operation that failed.
    pub operation: Request,
    /// The object's name below the store's prefix, or the prefix that was listed.
    pub object: String,
    /// The class of the failure, on which callers decide.
    pub cause: Cause,
    /// The reason for people.
    pub message: String,
}

/// The kinds of request a store serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Request {
    /// Creates an object.
    Create,
    /// Reads an object or a range of it.
    Get,
    /// Lists names.
    List,
    /// Deletes an object.
    Delete,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Request::Create => "creation",
            Request::Get => "GET",
            Request::List => "LIST",
            Request::Delete => "DELETE",
        })
    }
}

/// An object that a LIST returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The object's name below the store's prefix.
    pub name: String,
    /// The object's size in bytes.
    pub bytes: u64,
    /// When the object was created, by the store's clock.
    pub modified: SystemTime,
}

/// The result of every request.
pub type StoreResult<T> = Result<T, StoreError>;

/// A place for objects: names map to bytes that are written once.
///
/// Each method makes one request (LIST: one for each page) and does not repeat it; what
/// may be repeated is decided by the caller. All methods may be called from several
/// threads at once and block until the answer is there.
pub trait Store: Send + Sync + fmt::Debug {
    /// Creates an object whose content is `parts`, one after the other, unless an object
    /// of this name exists.
    ///
    /// # Errors
    /// [`Cause::Exists`] and [`Cause::Unavailable`] leave open whether the object was
    /// created by this request.
    fn create(&self, name: &str, parts: &[&[u8]]) -> StoreResult<()>;

    /// Returns an object's whole content.
    ///
    /// # Errors
    /// [`Cause::Missing`] if no object has this name.
    fn get(&self, name: &str) -> StoreResult<Vec<u8>>;

    /// Fills `buffer` from byte `offset` of an object.
    ///
    /// # Errors
    /// As [`Store::get`]; [`Cause::Malformed`] if the object is too short.
    fn get_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> StoreResult<()>;

    /// Returns the objects whose names begin with `prefix` and are greater than `after`,
    /// in the order of their names. The list may lag behind creations and deletions: it
    /// is a hint, and a name that matters is confirmed by a GET.
    ///
    /// # Errors
    /// If a page could not be had.
    fn list(&self, prefix: &str, after: &str) -> StoreResult<Vec<Listed>>;

    /// Deletes an object. The deletion of a name that does not exist succeeds.
    ///
    /// # Errors
    /// If the store did not confirm it; the object may be gone.
    fn delete(&self, name: &str) -> StoreResult<()>;

    /// Returns the store's name for error messages: its URL, without credentials.
    fn name(&self) -> String;
}
