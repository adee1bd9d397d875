//! Names of volumes in object stores: `s3://bucket/prefix`, `gs://`, `az://`, `file://`.
//!
//! A URL has no credentials: they are read from the environment and from files, as the
//! tools of each service do. The endpoint and the region may follow a question mark:
//! `s3://bucket/prefix?endpoint=http://127.0.0.1:8333&region=eu-west-1`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// The services that a URL can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Service {
    /// Amazon S3, or a store with its protocol at another endpoint.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage; the bucket is the container.
    Azure,
    /// A directory of the host.
    Folder,
}

/// Where a volume's objects are stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoreUrl {
    /// The service.
    pub service: Service,
    /// The bucket or container; the directory of [`Service::Folder`].
    pub bucket: String,
    /// What the names of all objects begin with, without slashes at its ends. It may be
    /// empty.
    pub prefix: String,
    /// The service's address if it is not the provider's own.
    pub endpoint: Option<String>,
    /// The region, if the URL has it.
    pub region: Option<String>,
}

/// A URL that cannot be used, or a store that did not serve its first request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url}: {problem}; {advice}")]
pub struct UrlError {
    /// The URL, without credentials.
    pub url: String,
    /// The cause.
    pub problem: String,
    /// The next step.
    pub advice: String,
}

const SCHEMES: [(&str, Service); 4] = [
    ("s3://", Service::S3),
    ("gs://", Service::Google),
    ("az://", Service::Azure),
    ("file://", Service::Folder),
];

impl StoreUrl {
    /// Returns true if a volume's name is the URL of a store and not a path.
    pub fn is_url(name: impl AsRef<Path>) -> bool {
        let name = name.as_ref().to_str();
        name.is_some_and(|name| SCHEMES.iter().any(|(scheme, _)| name.starts_with(scheme)))
    }

    pub(crate) fn refused(
        &self,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> UrlError {
        UrlError {
            url: self.to_string(),
            problem: problem.into(),
            advice: advice.into(),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match (key, self.service) {
            (_, Service::Folder) => Err("a directory has no options".to_owned()),
            ("endpoint", _) if is_endpoint(value) => {
                self.endpoint = Some(value.trim_end_matches('/').to_owned());
                Ok(())
            }
            ("endpoint", _) => Err("the endpoint must begin with https:// or http:// and \
                                    must not have a user name"
                .to_owned()),
            ("region", Service::S3) => {
                self.region = Some(value.to_owned());
                Ok(())
            }
            _ => Err(format!("there is no option {key} of this service")),
        }
    }
}

/// Returns true for a URL of http or https without a user name or password.
pub(crate) fn is_endpoint(text: &str) -> bool {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['@', '?', '#', ' ']))
}

impl FromStr for StoreUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let example = "write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX \
                       or file:///DIRECTORY";
        let refused = |url: &str, problem: &str, advice: &str| UrlError {
            url: url.to_owned(),
            problem: problem.to_owned(),
            advice: advice.to_owned(),
        };
        let known = SCHEMES
            .iter()
            .find_map(|&(scheme, service)| Some((scheme, service, text.strip_prefix(scheme)?)));
        let Some((scheme, service, rest)) = known else {
            return Err(refused(text, "is not the URL of a store", example));
        };
        let (place, options) = match service {
            Service::Folder => (rest, None),
            _ => match rest.split_once('?') {
                Some((place, options)) => (place, Some(options)),
                None => (rest, None),
            },
        };
        if service == Service::Folder {
            if !place.starts_with('/') {
                return Err(refused(text, "has no absolute path", example));
            }
            return Ok(StoreUrl {
                service,
                bucket: place.to_owned(),
                prefix: String::new(),
                endpoint: None,
                region: None,
            });
        }
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        if bucket.contains(['@', ':']) {
            // The text may contain a password, so that it is not repeated.
            let advice = "give credentials in the environment or in a profile file";
            return Err(refused(
                scheme,
                "a URL has no user name or password",
                advice,
            ));
        }
        let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '$');
        if bucket.is_empty() || !bucket.chars().all(is_good) {
            return Err(refused(text, "has no usable name of a bucket", example));
        }
        let prefix = prefix.trim_matches('/');
        let is_part = |part: &str| {
            !matches!(part, "" | "." | "..") && part.chars().all(|c| is_good(c) || c == '=')
        };
        if !prefix.is_empty() && !prefix.split('/').all(is_part) {
            let advice = "use letters, digits and -._= between single slashes";
            return Err(refused(text, "the prefix cannot be used", advice));
        }
        let mut url = StoreUrl {
            service,
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            endpoint: None,
            region: None,
        };
        for option in options
            .unwrap_or("")
            .split('&')
            .filter(|option| !option.is_empty())
        {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let set = url.set(key, value);
            set.map_err(|problem| url.refused(problem, "the options are endpoint= and region="))?;
        }
        Ok(url)
    }
}

/// Shows the URL without its options.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = SCHEMES.iter().find(|(_, service)| *service == self.service);
        let scheme = scheme.map_or("", |(scheme, _)| scheme);
        write!(f, "{scheme}{}", self.bucket)?;
        match self.prefix.is_empty() {
            true => Ok(()),
            false => write!(f, "/{}", self.prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_parsed_and_shown() {
        let url: StoreUrl = "s3://b/p/q/?endpoint=http://127.0.0.1:8333/&region=eu-west-1"
            .parse()
            .unwrap();
        assert_eq!((url.bucket.as_str(), url.prefix.as_str()), ("b", "p/q"));
        assert_eq!(url.endpoint.as_deref(), Some("http://127.0.0.1:8333"));
        assert_eq!(url.region.as_deref(), Some("eu-west-1"));
        assert_eq!(url.to_string(), "s3://b/p/q");
        assert!(StoreUrl::is_url("gs://b") && StoreUrl::is_url("file:///d"));
        assert!(!StoreUrl::is_url("s3") && !StoreUrl::is_url("/dev/sdb"));
    }

    #[test]
    fn a_bad_url_is_refused_and_a_password_is_not_repeated() {
        for bad in [
            "http://b/p",
            "s3://",
            "s3:///p",
            "s3://b/p//q",
            "s3://b/../q",
            "s3://b?endpoint=ftp://x",
            "s3://b?endpoint=http://user:secret@x",
            "s3://b?colour=red",
            "gs://b?region=x",
            "file://relative",
        ] {
            let error = bad.parse::<StoreUrl>().unwrap_err();
            assert!(
                !error.problem.is_empty() && !error.advice.is_empty(),
                "{bad}"
            );
        }
        for bad in [
            "s3://key:secret@b/p",
            "s3://b?endpoint=http://user:secret@x",
        ] {
            let error = bad.parse::<StoreUrl>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
    }
}
