//! Stores behind URLs, by the crate `object_store`: `s3://bucket/prefix`,
//! `gs://bucket/prefix`, `az://container/prefix` and `file:///folder`.
//!
//! Each request is made once: the device decides what is repeated.

mod profile;

use crate::store::{Cause, Listed, Request, Store, StoreError, StoreResult};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    ClientOptions, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload, RetryConfig,
};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use tokio::runtime::Runtime;

/// How long a request may take before it counts as not answered.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a connection may take.
const CONNECTING: Duration = Duration::from_secs(5);

/// Why a URL does not name a store.
#[derive(Debug, thiserror::Error)]
#[error("{url}: {reason}")]
pub struct UrlError {
    /// The URL.
    pub url: String,
    /// What is wrong, and what to do.
    pub reason: String,
}

/// True if a name of a volume is a URL of a store, and no path.
pub fn is_url(name: &str) -> bool {
    ["s3://", "gs://", "az://", "file://"]
        .iter()
        .any(|scheme| name.starts_with(scheme))
}

/// The store of a URL. No request is made. Credentials come from where the tools of the
/// provider look for them: for S3 the environment (`AWS_ACCESS_KEY_ID` and others), the
/// profile in `~/.aws` (`AWS_PROFILE`), or the instance. `endpoint` is the address of an
/// S3 service other than Amazon's; without it `AWS_ENDPOINT_URL` counts. Without TLS
/// only if the endpoint says `http:`.
///
/// # Errors
/// If the URL is not one of a store, or the settings in the environment are wrong.
pub fn open(url: &str, endpoint: Option<&str>) -> Result<Arc<dyn Store>, UrlError> {
    let fail = |reason: String| UrlError {
        url: url.to_owned(),
        reason,
    };
    let (scheme, rest) = url
        .split_once("://")
        .ok_or_else(|| fail("it is no URL".to_owned()))?;
    if scheme == "file" {
        return folder(url, rest);
    }
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() {
        return Err(fail(format!(
            "it names no bucket, as {scheme}://BUCKET/PREFIX does"
        )));
    }
    // The first caller installs it for the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let reason = |error: object_store::Error| fail(error.to_string());
    let client = ClientOptions::new()
        .with_timeout(PATIENCE)
        .with_connect_timeout(CONNECTING);
    let retry = RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    };
    let inner: Box<dyn ObjectStore> = match scheme {
        "s3" => {
            let mut builder = AmazonS3Builder::from_env().with_retry(retry);
            for (key, value) in profile::settings().map_err(fail)? {
                if builder.get_config_value(&key).is_none() {
                    builder = builder.with_config(key, value);
                }
            }
            let found = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
            let endpoint = endpoint.map(str::to_owned).or(found);
            if let Some(endpoint) = endpoint {
                builder = builder.with_allow_http(endpoint.starts_with("http:"));
                builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
            }
            let key = &AmazonS3ConfigKey::AccessKeyId;
            let secret = &AmazonS3ConfigKey::SecretAccessKey;
            let has = |key| builder.get_config_value(key).is_some();
            if has(key) != has(secret) {
                return Err(fail(
                    "of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY one is set and the other \
                     is not; set both"
                        .to_owned(),
                ));
            }
            let client = match builder.get_config_value(&AmazonS3ConfigKey::Endpoint) {
                Some(endpoint) => client.with_allow_http(endpoint.starts_with("http:")),
                None => client,
            };
            let builder = builder.with_client_options(client);
            Box::new(builder.with_bucket_name(bucket).build().map_err(reason)?)
        }
        "gs" => {
            let builder = GoogleCloudStorageBuilder::from_env().with_retry(retry);
            let builder = builder.with_client_options(client);
            Box::new(builder.with_bucket_name(bucket).build().map_err(reason)?)
        }
        "az" => {
            let builder = MicrosoftAzureBuilder::from_env().with_retry(retry);
            let builder = builder.with_client_options(client);
            Box::new(
                builder
                    .with_container_name(bucket)
                    .build()
                    .map_err(reason)?,
            )
        }
        _ => {
            return Err(fail(format!("{scheme} is not s3, gs, az or file")));
        }
    };
    Ok(Arc::new(Cloud::new(inner, url, prefix).map_err(fail)?))
}

/// A folder as a store. Its objects are files that are linked to their names, so the
/// first creator wins.
fn folder(url: &str, path: &str) -> Result<Arc<dyn Store>, UrlError> {
    let fail = |reason: String| UrlError {
        url: url.to_owned(),
        reason,
    };
    if !path.starts_with('/') {
        return Err(fail("the folder's path must begin with a slash".to_owned()));
    }
    let inner = LocalFileSystem::new_with_prefix(path);
    let inner = inner.map_err(|error| fail(error.to_string()))?;
    // What was created must survive a power cut.
    let inner: Box<dyn ObjectStore> = Box::new(inner.with_fsync(true));
    Ok(Arc::new(Cloud::new(inner, url, "").map_err(fail)?))
}

/// The threads that wait for answers.
fn runtime() -> Result<&'static Runtime, String> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("varve-object");
        let made = builder.enable_all().build();
        made.map_err(|error| format!("its threads cannot be started: {error}"))
    });
    made.as_ref().map_err(Clone::clone)
}

/// A store of `object_store`.
struct Cloud {
    inner: Arc<dyn ObjectStore>,
    runtime: &'static Runtime,
    url: String,
    prefix: Path,
}

impl std::fmt::Debug for Cloud {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.url) // and no credentials
    }
}

impl Cloud {
    fn new(inner: Box<dyn ObjectStore>, url: &str, prefix: &str) -> Result<Self, String> {
        Ok(Cloud {
            inner: Arc::from(inner),
            runtime: runtime()?,
            url: url.to_owned(),
            prefix: Path::parse(prefix.trim_matches('/')).map_err(|error| error.to_string())?,
        })
    }

    fn path(&self, name: &str) -> Path {
        let parts = self.prefix.parts().map(|part| part.as_ref().to_owned());
        let parts = parts.chain(name.split('/').map(str::to_owned));
        parts.collect()
    }

    fn error(&self, operation: Request, name: &str, error: &object_store::Error) -> StoreError {
        StoreError {
            store: self.url.clone(),
            operation,
            object: name.to_owned(),
            cause: cause(error),
            message: message(error),
        }
    }

    /// Runs a request on the threads that wait, and waits for it here.
    fn run<T: Send + 'static>(
        &self,
        operation: Request,
        name: &str,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> StoreResult<T> {
        let task = self.runtime.spawn(request);
        let (sender, answer) = std::sync::mpsc::channel();
        self.runtime.spawn(async move {
            let _ = sender.send(task.await);
        });
        let failed = |message: String| StoreError {
            store: self.url.clone(),
            operation,
            object: name.to_owned(),
            cause: Cause::Unavailable,
            message,
        };
        match answer.recv() {
            Ok(Ok(answer)) => answer.map_err(|error| self.error(operation, name, &error)),
            Ok(Err(stopped)) => Err(failed(stopped.to_string())),
            Err(stopped) => Err(failed(stopped.to_string())),
        }
    }
}

/// The class of a failure.
fn cause(error: &object_store::Error) -> Cause {
    use object_store::Error;
    match error {
        Error::NotFound { .. } => match is_no_bucket(error) {
            true => Cause::Rejected,
            false => Cause::Missing,
        },
        Error::AlreadyExists { .. } | Error::Precondition { .. } => Cause::Exists,
        Error::PermissionDenied { .. }
        | Error::Unauthenticated { .. }
        | Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::InvalidPath { .. }
        | Error::UnknownConfigurationKey { .. } => Cause::Rejected,
        _ => match is_refused_for_good(error) {
            true => Cause::Rejected,
            false => Cause::Unavailable,
        },
    }
}

/// True if the store says that there is no such bucket, and not that there is no such
/// object.
fn is_no_bucket(error: &object_store::Error) -> bool {
    let text = error.to_string();
    text.contains("NoSuchBucket") || text.contains("ContainerNotFound")
}

/// True for a failure that would be repeated: a certificate that is not trusted, a
/// request that is malformed.
fn is_refused_for_good(error: &object_store::Error) -> bool {
    let text = chain(error);
    [
        "certificate",
        "400 Bad Request",
        "301 Moved",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
    ]
    .iter()
    .any(|part| text.contains(part))
}

/// An error with its sources.
fn chain(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(next) = source {
        let more = next.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = next.source();
    }
    text
}

/// The reason for people, with the next step where there is one.
fn message(error: &object_store::Error) -> String {
    use object_store::Error;
    let text = chain(error);
    let step = match error {
        _ if text.contains("certificate") => {
            "the server's certificate is not trusted; SSL_CERT_FILE names further authorities"
        }
        _ if text.contains("NoSuchBucket") => "the bucket does not exist; create it first",
        _ if text.contains("169.254.169.254") => {
            "no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
             AWS_PROFILE"
        }
        Error::Unauthenticated { .. } => "the store does not accept the credentials",
        Error::PermissionDenied { .. } => {
            "the credentials are wrong, or do not permit this; they need to create, read, list \
             and delete objects"
        }
        _ if text.contains("301 Moved") => "the bucket is in another region; set AWS_REGION",
        _ => return text,
    };
    format!("{step} ({text})")
}

impl Store for Cloud {
    fn create(&self, name: &str, parts: &[&[u8]]) -> StoreResult<()> {
        let (inner, path) = (Arc::clone(&self.inner), self.path(name));
        let payload = PutPayload::from(parts.concat());
        self.run(Request::Create, name, async move {
            let options = PutOptions::from(PutMode::Create);
            inner.put_opts(&path, payload, options).await.map(drop)
        })
    }

    fn get(&self, name: &str) -> StoreResult<Vec<u8>> {
        let (inner, path) = (Arc::clone(&self.inner), self.path(name));
        self.run(Request::Get, name, async move {
            let found = inner.get(&path).await?;
            Ok(found.bytes().await?.to_vec())
        })
    }

    fn get_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> StoreResult<()> {
        let (inner, path) = (Arc::clone(&self.inner), self.path(name));
        let range = offset..offset + buffer.len() as u64;
        let found = self.run(Request::Get, name, async move {
            let options = GetOptions {
                range: Some(GetRange::Bounded(range)),
                ..GetOptions::default()
            };
            inner.get_opts(&path, options).await?.bytes().await
        })?;
        if found.len() != buffer.len() {
            return Err(StoreError {
                store: self.url.clone(),
                operation: Request::Get,
                object: name.to_owned(),
                cause: Cause::Malformed,
                message: format!("{} bytes came for {}", found.len(), buffer.len()),
            });
        }
        buffer.copy_from_slice(&found);
        Ok(())
    }

    fn list(&self, prefix: &str, after: &str) -> StoreResult<Vec<Listed>> {
        // Whole folders are listed, as not all stores list by the beginning of a name.
        let (folder, _) = prefix.rsplit_once('/').unwrap_or(("", ""));
        let inner = Arc::clone(&self.inner);
        let path = match folder {
            "" => self.prefix.clone(),
            folder => self.path(folder),
        };
        let found = self.run(Request::List, prefix, async move {
            use futures_util::TryStreamExt;
            inner.list(Some(&path)).try_collect::<Vec<_>>().await
        })?;
        let below = match self.prefix.as_ref() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let mut listed: Vec<Listed> = found
            .into_iter()
            .filter_map(|object| {
                let name = object.location.as_ref().strip_prefix(&below)?.to_owned();
                let is_asked = name.starts_with(prefix) && name.as_str() > after;
                is_asked.then(|| Listed {
                    name,
                    bytes: object.size,
                    modified: SystemTime::from(object.last_modified),
                })
            })
            .collect();
        listed.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(listed)
    }

    fn delete(&self, name: &str) -> StoreResult<()> {
        let (inner, path) = (Arc::clone(&self.inner), self.path(name));
        let answer = self.run(
            Request::Delete,
            name,
            async move { inner.delete(&path).await },
        );
        match answer {
            Err(error) if error.cause == Cause::Missing => Ok(()),
            answer => answer,
        }
    }

    fn name(&self) -> String {
        self.url.clone()
    }
}
