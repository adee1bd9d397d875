//! Stores over the network: S3 and what has its protocol, Google, Azure.
//!
//! The requests run on one thread of a runtime of their own; a caller waits for the
//! answer. No request is repeated here: the device decides that. Credentials are kept in
//! the client only, and no error and no `Debug` output contains them.

mod aws;
mod errors;

use crate::store::{Cause, Listed, Request, Store, StoreError, StoreResult};
use crate::url::{Service, StoreUrl, UrlError};
use bytes::Bytes;
use errors::explain;
use futures_util::TryStreamExt;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{
    Certificate, ClientOptions, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode,
    PutOptions, PutPayload, RetryConfig,
};
use std::env;
use std::fmt;
use std::fs;
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Bound of one request. An object of 8 MiB needs 140 KB/s.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Bound of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Objects of a bucket whose names begin with a prefix.
pub struct CloudStore {
    store: Arc<dyn ObjectStore>,
    url: StoreUrl,
    /// Present until the store is dropped.
    runtime: Option<Runtime>,
}

/// Shows the URL only, as the client below has credentials.
impl fmt::Debug for CloudStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CloudStore").field(&self.name()).finish()
    }
}

/// Opens the store of a URL and makes one LIST, which shows that the endpoint answers,
/// the credentials are accepted and the bucket exists.
///
/// # Errors
/// Names the cause and the next step.
pub(crate) fn open(url: &StoreUrl) -> Result<Arc<dyn Store>, UrlError> {
    // Another part of the process may have chosen a provider before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let store = client(url)?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("varve-bucket")
        .enable_all()
        .build()
        .map_err(|error| url.refused(error.to_string(), "free memory or threads"))?;
    let store = CloudStore {
        store,
        url: url.clone(),
        runtime: Some(runtime),
    };
    let (first, prefix) = (Arc::clone(&store.store), store.path(""));
    let probed = store.wait(async move { first.list(Some(&prefix)).try_next().await });
    match probed {
        Some(Ok(_)) => Ok(Arc::new(store)),
        Some(Err(error)) => {
            let explained = explain(&error, url);
            Err(url.refused(explained.message, explained.advice))
        }
        None => Err(url.refused("the request ended without an answer", "try again")),
    }
}

fn client(url: &StoreUrl) -> Result<Arc<dyn ObjectStore>, UrlError> {
    let retry = RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    };
    let failed = |error: object_store::Error| {
        let explained = explain(&error, url);
        url.refused(explained.message, explained.advice)
    };
    let endpoint = url.endpoint.as_deref();
    let options = client_options(url, endpoint)?;
    match url.service {
        Service::S3 => aws::client(url, retry),
        Service::Google => {
            let mut builder = GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(&url.bucket)
                .with_retry(retry)
                .with_client_options(options);
            if let Some(endpoint) = endpoint {
                builder = builder.with_base_url(endpoint);
            }
            Ok(Arc::new(builder.build().map_err(failed)?))
        }
        Service::Azure => {
            let mut builder = MicrosoftAzureBuilder::from_env()
                .with_container_name(&url.bucket)
                .with_retry(retry)
                .with_client_options(options);
            if let Some(endpoint) = endpoint {
                builder = builder.with_endpoint(endpoint.to_owned());
            }
            Ok(Arc::new(builder.build().map_err(failed)?))
        }
        Service::Folder => Err(url.refused("is a directory", "open it as one")),
    }
}

/// Options of the HTTP client. Plain HTTP is allowed only where the endpoint says so;
/// certificates are always verified.
fn client_options(url: &StoreUrl, endpoint: Option<&str>) -> Result<ClientOptions, UrlError> {
    let plain = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    let mut options = ClientOptions::new()
        .with_timeout(TIMEOUT)
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_allow_http(plain);
    if let Some(bundle) = env::var_os("AWS_CA_BUNDLE") {
        let advice = "set AWS_CA_BUNDLE to a file of PEM certificates, or unset it";
        let bytes = fs::read(&bundle)
            .map_err(|error| url.refused(format!("{}: {error}", bundle.display()), advice))?;
        let parsed = Certificate::from_pem_bundle(&bytes).map_err(|_| {
            let problem = format!("{} has no usable certificate", bundle.display());
            url.refused(problem, advice)
        })?;
        for certificate in parsed {
            options = options.with_root_certificate(certificate);
        }
    }
    Ok(options)
}

impl CloudStore {
    /// Returns an object's path in the bucket.
    fn path(&self, name: &str) -> Path {
        match (self.url.prefix.is_empty(), name.is_empty()) {
            (true, _) => Path::from(name),
            (false, true) => Path::from(self.url.prefix.as_str()),
            (false, false) => Path::from(format!("{}/{name}", self.url.prefix)),
        }
    }

    /// Runs a request on the store's own runtime, so that the caller may be a thread of
    /// another one. Returns `None` if the request ended without an answer.
    fn wait<T: Send + 'static>(&self, run: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.runtime.as_ref()?.spawn(async move {
            // The receiver waits below.
            let _ = sender.send(run.await);
        });
        receiver.recv().ok()
    }

    fn request<T: Send + 'static>(
        &self,
        operation: Request,
        name: &str,
        run: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> StoreResult<T> {
        match self.wait(run) {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => {
                let explained = explain(&error, &self.url);
                let message = format!("{}; {}", explained.message, explained.advice);
                Err(self.failed(operation, name, explained.cause, message))
            }
            None => {
                let message = "the request ended without an answer".to_owned();
                Err(self.failed(operation, name, Cause::Unavailable, message))
            }
        }
    }

    fn failed(&self, operation: Request, name: &str, cause: Cause, message: String) -> StoreError {
        StoreError {
            store: self.name(),
            operation,
            object: name.to_owned(),
            cause,
            message,
        }
    }
}

impl Store for CloudStore {
    fn create(&self, name: &str, parts: &[&[u8]]) -> StoreResult<()> {
        let payload: PutPayload = parts
            .iter()
            .map(|part| Bytes::copy_from_slice(part))
            .collect();
        let (store, path) = (Arc::clone(&self.store), self.path(name));
        let options = PutOptions::from(PutMode::Create);
        let put = async move { store.put_opts(&path, payload, options).await };
        self.request(Request::Create, name, put).map(drop)
    }

    fn get(&self, name: &str) -> StoreResult<Vec<u8>> {
        let (store, path) = (Arc::clone(&self.store), self.path(name));
        let get = async move { store.get(&path).await?.bytes().await };
        self.request(Request::Get, name, get).map(Vec::from)
    }

    fn get_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> StoreResult<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        let (store, path) = (Arc::clone(&self.store), self.path(name));
        let end = offset.saturating_add(buffer.len() as u64);
        let options = GetOptions {
            range: Some(GetRange::Bounded(offset..end)),
            ..GetOptions::default()
        };
        let get = async move { store.get_opts(&path, options).await?.bytes().await };
        let bytes = self.request(Request::Get, name, get)?;
        if bytes.len() != buffer.len() {
            let message = format!("{} bytes instead of {}", bytes.len(), buffer.len());
            return Err(self.failed(Request::Get, name, Cause::Malformed, message));
        }
        buffer.copy_from_slice(&bytes);
        Ok(())
    }

    fn list(&self, prefix: &str, after: &str) -> StoreResult<Vec<Listed>> {
        let store = Arc::clone(&self.store);
        // The client lists directories only; the rest of the prefix is compared below.
        let directory = self.path(
            prefix
                .rsplit_once('/')
                .map_or("", |(directory, _)| directory),
        );
        let after_path = (!after.is_empty()).then(|| self.path(after));
        let list = async move {
            let objects = match after_path {
                Some(after) => store.list_with_offset(Some(&directory), &after),
                None => store.list(Some(&directory)),
            };
            objects.try_collect::<Vec<_>>().await
        };
        let above = match self.url.prefix.is_empty() {
            true => String::new(),
            false => format!("{}/", self.url.prefix),
        };
        let found = self.request(Request::List, prefix, list)?.into_iter();
        let mut all: Vec<Listed> = found
            .filter_map(|object| {
                let name = object.location.as_ref().strip_prefix(&above)?.to_owned();
                let wanted = name.starts_with(prefix) && *name > *after;
                wanted.then(|| Listed {
                    name,
                    bytes: object.size,
                    modified: object.last_modified.into(),
                })
            })
            .collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    fn delete(&self, name: &str) -> StoreResult<()> {
        let (store, path) = (Arc::clone(&self.store), self.path(name));
        let delete = async move { store.delete(&path).await };
        match self.request(Request::Delete, name, delete) {
            Err(error) if error.cause == Cause::Missing => Ok(()),
            deleted => deleted,
        }
    }

    fn name(&self) -> String {
        self.url.to_string()
    }
}

impl Drop for CloudStore {
    fn drop(&mut self) {
        // Dropping a runtime within another one's thread would panic.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
