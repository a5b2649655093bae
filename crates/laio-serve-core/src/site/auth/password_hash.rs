//! Hashes of passwords in a file of users: bcrypt and Argon2.

use argon2::password_hash::PasswordVerifier;
use argon2::password_hash::phc;
use argon2::{Algorithm, Argon2, Params, Version};
use laio_serve_base::options::Limits;
use std::str::FromStr;

/// A hash that is not too costly to check.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PasswordHash {
    /// Modular crypt format: `$2y$10$…`.
    Bcrypt(String),
    /// PHC string format: `$argon2id$v=19$m=65536,t=3,p=4$…`.
    Argon2(Box<phc::PasswordHash>),
}

impl PasswordHash {
    /// Whether the password is the right one. Takes a good part of a second by design.
    pub(super) fn matches(&self, password: &[u8]) -> bool {
        match self {
            PasswordHash::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            PasswordHash::Argon2(hash) => Argon2::default()
                .verify_password(password, hash.as_ref())
                .is_ok(),
        }
    }
}

/// Parses a hash by its prefix.
impl FromStr for PasswordHash {
    type Err = String;

    fn from_str(text: &str) -> Result<PasswordHash, String> {
        if text.starts_with("$argon2") {
            return argon2(text).map(Box::new).map(PasswordHash::Argon2);
        }
        let Some(cost) = bcrypt_cost(text) else {
            let text = "the hash is neither of bcrypt nor of Argon2: create one with `htpasswd -B`";
            return Err(text.to_owned());
        };
        if cost > Limits::AUTH_COST {
            let most = Limits::AUTH_COST;
            return Err(format!(
                "the cost {cost} makes checks too slow: use at most {most}"
            ));
        }
        match text.len() {
            60 => Ok(PasswordHash::Bcrypt(text.to_owned())),
            _ => Err("the hash does not have 60 characters".to_owned()),
        }
    }
}

fn bcrypt_cost(text: &str) -> Option<u32> {
    ["$2y$", "$2b$", "$2a$"].iter().find_map(|kind| {
        let rest = text.strip_prefix(kind)?;
        rest.split('$').next()?.parse().ok()
    })
}

fn argon2(text: &str) -> Result<phc::PasswordHash, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("the hash of Argon2 is malformed: {error}");
    let hash = phc::PasswordHash::new(text).map_err(|error| wrong(&error))?;
    let params = Params::try_from(&hash).map_err(|error| wrong(&error))?;
    Algorithm::try_from(hash.algorithm.as_str()).map_err(|error| wrong(&error))?;
    let version = hash.version.unwrap_or(Version::V0x13.into());
    Version::try_from(version).map_err(|error| wrong(&error))?;
    if hash.salt.is_none() || hash.hash.is_none() {
        return Err(wrong(&"the salt or the output is missing"));
    }
    for (name, value, most) in [
        ("memory m", params.m_cost(), Limits::AUTH_ARGON2_KIB),
        ("passes t", params.t_cost(), Limits::AUTH_ARGON2_PASSES),
    ] {
        if value > most {
            return Err(format!(
                "{name}={value} makes checks too expensive: use at most {most}"
            ));
        }
    }
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BCRYPT: &str = "$2y$04$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234";
    /// By `printf 'open sesame' | argon2 somesalt -id -t 1 -k 8 -p 1 -e`.
    const ARGON2: &str =
        "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$hB+3w+XCqbeX/gTIqKvDd3rvONixo8T2Dgv6KiwCGcs";

    #[test]
    fn passwords_match_their_hashes() {
        let argon2: PasswordHash = ARGON2.parse().unwrap();
        assert!(argon2.matches(b"open sesame") && !argon2.matches(b"open"));
        let hash = bcrypt::hash("open sesame", 4).unwrap();
        let bcrypt: PasswordHash = hash.parse().unwrap();
        assert!(bcrypt.matches(b"open sesame") && !bcrypt.matches(b""));
    }

    #[test]
    fn malformed_and_expensive_hashes_are_refused() {
        assert!(BCRYPT.parse::<PasswordHash>().is_ok());
        for bad in [
            String::new(),
            "secret".to_owned(),
            "$apr1$x$y".to_owned(),
            BCRYPT[..50].to_owned(),
            BCRYPT.replace("$04$", "$20$"),
            ARGON2.replace("m=8", "m=65537"),
            ARGON2.replace("m=8", "m=7"),
            ARGON2.replace("t=1", "t=17"),
            ARGON2.replace("argon2id", "argon2x"),
            ARGON2.replace("v=19", "v=1"),
            ARGON2.rsplit_once('$').unwrap().0.to_owned(),
        ] {
            assert!(bad.parse::<PasswordHash>().is_err(), "{bad}");
        }
    }
}
