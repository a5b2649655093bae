//! The answer to a challenge of an authority.

use super::certificate;
use laio_serve_net::tls::published::Challenges;
use std::sync::Arc;

/// The answer to a challenge.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// HTTP-01: a token and the text to answer it with.
    Http { token: String, text: String },
    /// TLS-ALPN-01: a host name and the digest that its certificate contains.
    Tls { name: String, digest: Vec<u8> },
}

/// Returns what the workers need to answer these challenges.
///
/// # Errors
/// When the certificate for a challenge cannot be made.
pub(super) fn challenges(answers: &[Answer]) -> Result<Challenges, String> {
    let mut challenges = Challenges::default();
    for answer in answers {
        match answer {
            Answer::Http { token, text } => {
                challenges.http.insert(token.clone(), text.clone());
            }
            Answer::Tls { name, digest } => {
                let key = Arc::new(certificate::for_challenge(name, digest)?);
                challenges.tls.insert(name.clone(), key);
            }
        }
    }
    Ok(challenges)
}

impl Answer {
    /// Returns the name and the contents of the file that shows the answer to other servers.
    pub(super) fn to_file(&self) -> (String, Vec<u8>) {
        match self {
            Answer::Http { token, text } => (format!("http-01 {token}"), text.clone().into_bytes()),
            Answer::Tls { name, digest } => (format!("tls-alpn-01 {name}"), digest.clone()),
        }
    }

    /// Returns the answer in a file of another server.
    pub(super) fn from_file(name: &str, contents: Vec<u8>) -> Option<Answer> {
        let (kind, key) = name.split_once(' ')?;
        let key = key.to_owned();
        match kind {
            "http-01" => Some(Answer::Http {
                token: key,
                text: String::from_utf8(contents).ok()?,
            }),
            "tls-alpn-01" => Some(Answer::Tls {
                name: key,
                digest: contents,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laio_serve_net::tls::published::Published;

    #[test]
    fn answers_replace_each_other() {
        let published = Published::default();
        let path = "/.well-known/acme-challenge/token";
        let http = Answer::Http {
            token: "token".to_owned(),
            text: "token.key".to_owned(),
        };
        published.set_challenges(challenges(&[http]).unwrap());
        assert_eq!(published.http_answer(path).unwrap(), "token.key");
        for other in [
            "/token",
            "/.well-known/acme-challenge/",
            "/.well-known/acme-challenge/token/",
        ] {
            assert!(published.http_answer(other).is_none());
        }
        let tls = Answer::Tls {
            name: "example.org".to_owned(),
            digest: vec![7; 32],
        };
        published.set_challenges(challenges(&[tls]).unwrap());
        assert!(published.http_answer(path).is_none());
        assert!(published.tls_answer("Example.ORG").is_some());
        assert!(published.tls_answer("www.example.org").is_none());
    }

    #[test]
    fn answers_come_back_from_files() {
        for answer in [
            Answer::Http {
                token: "a-_0".to_owned(),
                text: "a-_0.key".to_owned(),
            },
            Answer::Tls {
                name: "example.org".to_owned(),
                digest: vec![0xff; 32],
            },
        ] {
            let (name, contents) = answer.to_file();
            let back = Answer::from_file(&name, contents).unwrap();
            assert_eq!(format!("{back:?}"), format!("{answer:?}"));
        }
        assert!(Answer::from_file("dns-01 x", Vec::new()).is_none());
        assert!(Answer::from_file("x", Vec::new()).is_none());
    }
}
