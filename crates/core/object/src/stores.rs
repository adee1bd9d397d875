//! The store of a URL.

use crate::folder::FolderStore;
use crate::store::Store;
use crate::url::{Service, StoreUrl, UrlError};
use std::path::PathBuf;
use std::sync::Arc;

impl StoreUrl {
    /// Opens the store. One LIST shows that the endpoint answers, the credentials are
    /// accepted and the bucket exists; a directory is made if it is missing.
    ///
    /// # Errors
    /// Names the cause and the next step.
    pub fn open(&self) -> Result<Arc<dyn Store>, UrlError> {
        if self.service == Service::Folder {
            let path = PathBuf::from(&self.bucket);
            return match FolderStore::open(path) {
                Ok(store) => Ok(Arc::new(store)),
                Err(error) => {
                    Err(self.refused(error.message, "name a directory that can be written"))
                }
            };
        }
        #[cfg(feature = "cloud")]
        return crate::cloud::open(self);
        #[cfg(not(feature = "cloud"))]
        return Err(self.refused(
            "this program was built without stores over the network",
            "build it with the feature bucket",
        ));
    }
}
