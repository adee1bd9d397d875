//! The profile files of the AWS tools.

use object_store::aws::AmazonS3ConfigKey;
use std::path::PathBuf;

/// Settings of the profile that `AWS_PROFILE` names, or of `default`: from the file of
/// credentials, then from that of the configuration. A file that does not exist has none.
///
/// # Errors
/// If a file cannot be read, or the named profile is in neither.
pub(super) fn settings() -> Result<Vec<(AmazonS3ConfigKey, String)>, String> {
    let named = std::env::var("AWS_PROFILE")
        .ok()
        .filter(|name| !name.is_empty());
    let profile = named.as_deref().unwrap_or("default");
    let mut all = Vec::new();
    let mut is_known = false;
    for (variable, file, section) in [
        (
            "AWS_SHARED_CREDENTIALS_FILE",
            "credentials",
            profile.to_owned(),
        ),
        (
            "AWS_CONFIG_FILE",
            "config",
            match profile {
                "default" => profile.to_owned(),
                _ => format!("profile {profile}"),
            },
        ),
    ] {
        let home = || {
            Some(
                PathBuf::from(std::env::var_os("HOME")?)
                    .join(".aws")
                    .join(file),
            )
        };
        let Some(path) = std::env::var_os(variable).map(PathBuf::from).or_else(home) else {
            continue;
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        if let Some(found) = section_of(&text, &section) {
            is_known = true;
            all.extend(found);
        }
    }
    match named {
        Some(name) if !is_known => Err(format!(
            "AWS_PROFILE is {name}, and no profile of that name is in ~/.aws/credentials or \
             ~/.aws/config"
        )),
        _ => Ok(all),
    }
}

/// The settings in a section that are known here.
fn section_of(text: &str, section: &str) -> Option<Vec<(AmazonS3ConfigKey, String)>> {
    let mut found = None;
    let mut is_inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            is_inside = name.trim() == section;
            if is_inside {
                found.get_or_insert_with(Vec::new);
            }
        } else if is_inside && let Some((key, value)) = line.split_once('=') {
            let key = match key.trim() {
                "aws_access_key_id" => AmazonS3ConfigKey::AccessKeyId,
                "aws_secret_access_key" => AmazonS3ConfigKey::SecretAccessKey,
                "aws_session_token" => AmazonS3ConfigKey::Token,
                "region" => AmazonS3ConfigKey::Region,
                "endpoint_url" => AmazonS3ConfigKey::Endpoint,
                _ => continue,
            };
            found
                .get_or_insert_with(Vec::new)
                .push((key, value.trim().to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_has_its_settings() {
        let text = "[default]\nregion = a\n\n[profile b]\n# x\naws_access_key_id=K\nother=1\n";
        let of = |section| section_of(text, section);
        assert_eq!(
            of("default").unwrap(),
            [(AmazonS3ConfigKey::Region, "a".to_owned())]
        );
        let key = (AmazonS3ConfigKey::AccessKeyId, "K".to_owned());
        assert_eq!(of("profile b").unwrap(), [key]);
        assert!(of("c").is_none());
    }
}
