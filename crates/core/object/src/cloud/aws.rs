//! The client of S3: credentials, endpoint and region as the AWS tools find them.

use crate::cloud::{client_options, errors::explain};
use crate::url::{StoreUrl, UrlError, is_endpoint};
use object_store::aws::AmazonS3Builder;
use object_store::{ObjectStore, RetryConfig};
use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// Makes a client. What the URL says has priority over the environment, and that over
/// the profile file. If none of them has a key, the client asks the role of the
/// container or of the instance.
pub(super) fn client(url: &StoreUrl, retry: RetryConfig) -> Result<Arc<dyn ObjectStore>, UrlError> {
    let profile = Profile::read(url)?;
    let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let endpoint = (url.endpoint.clone())
        .or_else(|| set("AWS_ENDPOINT_URL_S3"))
        .or_else(|| set("AWS_ENDPOINT_URL"))
        .or_else(|| profile.get("endpoint_url"));
    let region = (url.region.clone())
        .or_else(|| set("AWS_REGION"))
        .or_else(|| set("AWS_DEFAULT_REGION"))
        .or_else(|| profile.get("region"));
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(&url.bucket)
        // Single DELETE requests: not every store has the one for several objects.
        .with_disable_bulk_delete(true)
        .with_retry(retry)
        .with_client_options(client_options(url, endpoint.as_deref())?);
    if let Some(endpoint) = endpoint {
        if !is_endpoint(&endpoint) {
            // It may contain a password and is not repeated.
            let problem = "the endpoint is not an address of https:// or http://";
            return Err(url.refused(problem, "correct AWS_ENDPOINT_URL or endpoint_url"));
        }
        builder = builder.with_endpoint(endpoint);
    }
    if let Some(region) = region {
        builder = builder.with_region(region);
    }
    if set("AWS_ACCESS_KEY_ID").is_none() && set("AWS_SECRET_ACCESS_KEY").is_none() {
        let keys = (
            profile.get("aws_access_key_id"),
            profile.get("aws_secret_access_key"),
        );
        if let (Some(key), Some(secret)) = keys {
            builder = builder
                .with_access_key_id(key)
                .with_secret_access_key(secret);
            if let Some(token) = profile.get("aws_session_token") {
                builder = builder.with_token(token);
            }
        } else if let Some(other) = profile.unsupported() {
            let problem = format!(
                "profile {} has {other}, which is not supported",
                profile.name
            );
            let advice = "set the keys that `aws configure export-credentials --format env` prints";
            return Err(url.refused(problem, advice));
        }
    }
    match builder.build() {
        Ok(client) => Ok(Arc::new(client)),
        Err(error) => {
            let explained = explain(&error, url);
            Err(url.refused(explained.message, explained.advice))
        }
    }
}

/// The settings of one profile in the AWS tools' files.
struct Profile {
    name: String,
    settings: Vec<(String, String)>,
}

impl Profile {
    fn read(url: &StoreUrl) -> Result<Self, UrlError> {
        let chosen = env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty());
        let name = chosen.clone().unwrap_or_else(|| "default".to_owned());
        let file = |variable: &str, usual: &str| {
            let named = env::var_os(variable).map(PathBuf::from);
            let usual = || env::var_os("HOME").map(|home| PathBuf::from(home).join(usual));
            named
                .or_else(usual)
                .and_then(|path| fs::read_to_string(path).ok())
        };
        let credentials = file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
        let config = file("AWS_CONFIG_FILE", ".aws/config");
        let section = match name.as_str() {
            "default" => name.clone(),
            _ => format!("profile {name}"),
        };
        let mut settings = section_of(credentials.as_deref().unwrap_or(""), &name);
        let more = section_of(config.as_deref().unwrap_or(""), &section);
        if let (Some(name), None, None) = (chosen, &settings, &more) {
            let problem = format!("there is no profile {name} in the AWS tools' files");
            return Err(url.refused(problem, "correct AWS_PROFILE, or add the profile"));
        }
        // The credentials file has priority, as the first match is used.
        settings
            .get_or_insert_default()
            .extend(more.unwrap_or_default());
        Ok(Profile {
            name,
            settings: settings.unwrap_or_default(),
        })
    }

    fn get(&self, key: &str) -> Option<String> {
        let found = self.settings.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.clone())
    }

    /// Returns the setting of a kind of credentials that only the AWS tools can get.
    fn unsupported(&self) -> Option<&'static str> {
        let kinds = [
            "credential_process",
            "sso_session",
            "sso_start_url",
            "role_arn",
        ];
        kinds.into_iter().find(|kind| self.get(kind).is_some())
    }
}

/// Returns the settings below `[name]`, or `None` if there is no such section. Indented
/// lines are settings of a service and are ignored.
fn section_of(text: &str, name: &str) -> Option<Vec<(String, String)>> {
    let mut inside = false;
    let mut found: Option<Vec<(String, String)>> = None;
    for line in text.lines() {
        if let Some(title) = line
            .trim()
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            let words: Vec<&str> = title.split_whitespace().collect();
            inside = words.join(" ") == name;
            if inside {
                found.get_or_insert_default();
            }
        } else if inside
            && !line.starts_with([' ', '\t', '#', ';'])
            && let (Some(found), Some((key, value))) = (&mut found, line.split_once('='))
        {
            found.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::section_of;

    #[test]
    fn a_section_of_a_profile_file_is_found() {
        let text = "[other]\nregion = x\n[profile  work]\nregion=eu-west-1\n# note = 1\n\
                    s3 =\n  endpoint_url = http://x\naws_access_key_id = a=b\n[last]\nregion = y\n";
        let found = section_of(text, "profile work").unwrap();
        let pairs: Vec<_> = found
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        let expected = [
            ("region", "eu-west-1"),
            ("s3", ""),
            ("aws_access_key_id", "a=b"),
        ];
        assert_eq!(pairs, expected);
        assert!(section_of(text, "absent").is_none());
    }
}
