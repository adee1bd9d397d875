//! What a failed request means for the device, and what a person does about it.

use crate::store::Cause;
use crate::url::{Service, StoreUrl};
use object_store::Error;

/// A failure's class, reason and next step.
pub struct Explained {
    /// The class.
    pub cause: Cause,
    /// The reason, without credentials and without the request's signature.
    pub message: String,
    /// The next step.
    pub advice: &'static str,
}

/// Classifies a failure.
pub fn explain(error: &Error, url: &StoreUrl) -> Explained {
    let text = chain(error);
    let code = between(&text, "<Code>", "</Code>");
    // Only the code and the message of an answer are repeated: the rest of the answer to
    // a wrong signature shows what was signed.
    let message = match (code, between(&text, "<Message>", "</Message>")) {
        (Some(code), Some(message)) => format!("{message} ({code})"),
        (Some(code), None) => code.to_owned(),
        (None, _) => text
            .split("<?xml")
            .next()
            .unwrap_or("")
            .trim()
            .chars()
            .take(400)
            .collect(),
    };
    let explained = |cause, advice| Explained {
        cause,
        message: message.clone(),
        advice,
    };
    if let Some(known) = code.and_then(|code| by_code(code, url)) {
        return explained(known.0, known.1);
    }
    let has = |part: &str| text.contains(part);
    if has("/latest/api/token") || has("169.254.") || has("metadata.google.internal") {
        return Explained {
            cause: Cause::Unavailable,
            message: "no credentials were found in the environment or in a profile file, and \
                      this machine has no instance metadata"
                .to_owned(),
            advice: credentials(url),
        };
    }
    if has("invalid peer certificate") || has("certificate") {
        let advice = "name the authority's certificates in AWS_CA_BUNDLE, or use the name for \
                      which the certificate was issued";
        return explained(Cause::Rejected, advice);
    }
    if has("without LOCATION") {
        return explained(Cause::Rejected, "set the bucket's region in AWS_REGION");
    }
    match error {
        Error::NotFound { .. } => explained(Cause::Missing, "check the name"),
        Error::AlreadyExists { .. } | Error::Precondition { .. } => {
            explained(Cause::Exists, "read the object to see who created it")
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            explained(Cause::Rejected, credentials(url))
        }
        Error::InvalidPath { .. } | Error::NotSupported { .. } | Error::NotImplemented { .. } => {
            explained(Cause::Rejected, "check the URL")
        }
        // The client reads the answer's header and body before it returns.
        _ if has("416 ") => explained(Cause::Malformed, "run varve fsck on the volume"),
        _ if has("status code: 400") || has("status code: 405") || has("status code: 501") => {
            explained(
                Cause::Rejected,
                "check that the endpoint is an object store",
            )
        }
        Error::Generic { .. } if has("Requested range") || has("unexpected range") => {
            explained(Cause::Malformed, "run varve fsck on the volume")
        }
        _ => explained(
            Cause::Unavailable,
            "check that the endpoint is right and that this machine reaches it",
        ),
    }
}

/// Classifies by the code in a service's answer.
fn by_code(code: &str, url: &StoreUrl) -> Option<(Cause, &'static str)> {
    Some(match code {
        "NoSuchBucket" | "ContainerNotFound" => (
            Cause::Rejected,
            "make the bucket, or check its name and the endpoint",
        ),
        "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "InvalidToken"
        | "ExpiredToken"
        | "AuthenticationFailed"
        | "TokenRefreshRequired" => (Cause::Rejected, credentials(url)),
        "AccessDenied" | "AuthorizationFailure" | "AllAccessDisabled" => (
            Cause::Rejected,
            "allow listing, reading, creating and deleting of objects below the prefix",
        ),
        "RequestTimeTooSkewed" => (Cause::Rejected, "set this machine's clock"),
        "AuthorizationHeaderMalformed"
        | "PermanentRedirect"
        | "IllegalLocationConstraintException" => {
            (Cause::Rejected, "set the bucket's region in AWS_REGION")
        }
        "NotImplemented" | "InvalidBucketName" => (Cause::Rejected, "check the URL"),
        "InvalidRange" => (Cause::Malformed, "run varve fsck on the volume"),
        _ => return None,
    })
}

fn credentials(url: &StoreUrl) -> &'static str {
    match url.service {
        Service::Google => "set GOOGLE_APPLICATION_CREDENTIALS to a key file that is valid",
        Service::Azure => "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        _ => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to a profile of \
             ~/.aws/credentials"
        }
    }
}

/// Joins the messages of an error and its causes, each once.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let rest = text.split_once(begin)?.1;
    Some(rest.split_once(end)?.0)
}
