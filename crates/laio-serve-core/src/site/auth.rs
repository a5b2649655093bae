//! Access control: basic authentication (RFC 7617).

mod password_hash;

use laio_http::{Guard, Mount, Request, RequestPath};
use laio_rt::sync::Semaphore;
use laio_serve_base::cpu_pool::CpuPool;
use laio_serve_base::options::{Auth, Limits};
use password_hash::PasswordHash;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// The resource that a request asks for, as guards compare it.
#[derive(Clone, Copy)]
pub enum Resource<'a> {
    /// The file or directory of a path.
    File(&'a RequestPath<'a>),
    /// A file by its name below the root, such as an index.
    Name(&'a [u8]),
    /// Every file, whatever paths are guarded.
    Every,
    /// The resource of an HTTP upstream for a path.
    Upstream(&'a RequestPath<'a>),
    /// The resource of a FastCGI program for a path.
    Program(&'a RequestPath<'a>, &'a Mount),
}

impl Resource<'_> {
    /// Returns the resource as text.
    pub fn shown(&self) -> String {
        match self {
            Resource::File(path) | Resource::Upstream(path) | Resource::Program(path, _) => {
                path.as_str().escape_debug().to_string()
            }
            Resource::Every => "every file".to_owned(),
            Resource::Name(name) => {
                format!("the file {}", String::from_utf8_lossy(name).escape_debug())
            }
        }
    }
}

/// The result of checking access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Granted,
    /// The client must send credentials.
    Denied,
    /// Too many password checks are running.
    Busy,
}

/// Checks passwords for the connections of a worker.
pub struct PasswordChecks {
    cache: PasswordCache,
    /// Limits the checks that run at the same time.
    permits: Semaphore,
    cpu_pool: Arc<CpuPool>,
}

impl PasswordChecks {
    pub fn new(most: usize, cpu_pool: Arc<CpuPool>) -> PasswordChecks {
        PasswordChecks {
            cache: PasswordCache::default(),
            permits: Semaphore::new(most),
            cpu_pool,
        }
    }

    /// Checks the credentials of a request. A check takes a good part of a second by design,
    /// so the CPU pool runs it, and a correct password is checked only once.
    pub async fn check(
        &self,
        users: &Users,
        request: &Request<'_>,
        resource: Resource<'_>,
    ) -> Access {
        if !users.is_guarded(resource) {
            return Access::Granted;
        }
        let Some(credentials) = request.headers.only("Authorization").and_then(credentials) else {
            return Access::Denied;
        };
        let seal = self.cache.seal(users, &credentials);
        if self.cache.contains(seal) {
            return Access::Granted;
        }
        let Some(_permit) = self.permits.try_acquire() else {
            return Access::Busy;
        };
        let hash = users.hash_of(&credentials.name);
        let check = move || {
            let (hash, known) = hash;
            // An unknown name takes as long as a known one, so that timing does not reveal names.
            hash.matches(&credentials.password) & known
        };
        match self.cpu_pool.run(check).await {
            Some(true) => {
                self.cache.add(seal);
                Access::Granted
            }
            Some(false) | None => Access::Denied,
        }
    }
}

/// The users of a site.
pub struct Users {
    pub(crate) realm: String,
    hashes: HashMap<Vec<u8>, Arc<PasswordHash>>,
    /// The same hashes. One of them is checked for an unknown name, always the same one for a name: hashes may take
    /// different times.
    decoys: Vec<Arc<PasswordHash>>,
    choice: RandomState,
    /// None guards every path.
    paths: Option<Guard>,
    number: u64,
}

impl Users {
    /// Reads the file of users.
    ///
    /// # Errors
    /// Names the file that cannot be read, or the line that is malformed.
    pub fn read(users: &Path, auth: &Auth) -> io::Result<Users> {
        let file = users.display();
        let explain = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("cannot read the users in {file}: {error}"),
            )
        };
        let mut text = String::new();
        let opened = std::fs::File::open(users).map_err(explain)?;
        opened
            .take(Limits::AUTH_FILE)
            .read_to_string(&mut text)
            .map_err(explain)?;
        let mut hashes = HashMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, hash) = entry(line).map_err(|why| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{file}, line {number}: {why}"),
                )
            })?;
            hashes.insert(name.as_bytes().to_vec(), Arc::new(hash));
        }
        let decoys: Vec<_> = hashes.values().cloned().collect();
        if decoys.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{file} contains no users: add one with `htpasswd -B {file} NAME`"),
            ));
        }
        if auth
            .realm
            .bytes()
            .any(|byte| byte == b'"' || byte == b'\\' || byte.is_ascii_control())
        {
            let text = "the realm contains a quote, backslash or control character";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let paths = match &auth.paths[..] {
            [] => None,
            paths => {
                let guard = Guard::new(paths.iter().map(String::as_str));
                Some(guard.map_err(|bad| io::Error::new(io::ErrorKind::InvalidInput, bad))?)
            }
        };
        Ok(Users {
            realm: auth.realm.clone(),
            hashes,
            decoys,
            choice: RandomState::new(),
            paths,
            number: RandomState::new().hash_one(0),
        })
    }

    /// Whether any reading of the resource's path is guarded.
    pub(crate) fn is_guarded(&self, resource: Resource<'_>) -> bool {
        let Some(paths) = &self.paths else {
            return true;
        };
        is_guarded(paths, resource)
    }

    /// Returns the hash to check for a name, and whether it is that of a user.
    fn hash_of(&self, name: &[u8]) -> (Arc<PasswordHash>, bool) {
        if let Some(hash) = self.hashes.get(name) {
            return (hash.clone(), true);
        }
        let number = self.choice.hash_one(name) % self.decoys.len() as u64;
        (self.decoys[number as usize].clone(), false)
    }
}

/// Whether any reading of a resource's path is guarded.
pub(super) fn is_guarded(paths: &Guard, resource: Resource<'_>) -> bool {
    match resource {
        Resource::File(path) => paths.guards_file(path),
        Resource::Name(name) => paths.guards_name(name),
        Resource::Every => true,
        Resource::Upstream(path) => paths.guards_upstream(path),
        Resource::Program(path, mount) => paths.guards_program(path, mount),
    }
}

/// Returns the name and the hash of a line.
fn entry(line: &str) -> Result<(&str, PasswordHash), String> {
    match line.split_once(':') {
        None => Err("the line is not name:hash".to_owned()),
        Some(("", _)) => Err("the name is empty".to_owned()),
        Some((name, hash)) => Ok((name, hash.parse()?)),
    }
}

/// Returns the name of the user that a request gives.
pub fn user_of(request: &Request<'_>) -> Option<Vec<u8>> {
    let value = request.headers.only("Authorization")?;
    Some(credentials(value)?.name)
}

struct Credentials {
    name: Vec<u8>,
    password: Vec<u8>,
}

/// Parses the name and password of an `Authorization` field.
fn credentials(value: &[u8]) -> Option<Credentials> {
    use base64::Engine;
    let (scheme, token) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let engine = base64::engine::general_purpose::STANDARD;
    let mut name = engine.decode(token.trim_ascii()).ok()?;
    let colon = name.iter().position(|&byte| byte == b':')?;
    let password = name.split_off(colon + 1);
    name.pop();
    Some(Credentials { name, password })
}

/// Correct credentials of earlier requests, stored as keyed hashes that do not reveal them.
#[derive(Default)]
struct PasswordCache {
    keys: [RandomState; 2],
    seals: RefCell<HashSet<u128>>,
}

impl PasswordCache {
    fn seal(&self, users: &Users, credentials: &Credentials) -> u128 {
        let text = (users.number, &credentials.name, &credentials.password);
        let [high, low] = [0, 1].map(|half| u128::from(self.keys[half].hash_one(text)));
        high << 64 | low
    }

    fn contains(&self, seal: u128) -> bool {
        self.seals.borrow().contains(&seal)
    }

    fn add(&self, seal: u128) {
        let mut seals = self.seals.borrow_mut();
        if seals.len() >= Limits::AUTH_REMEMBERED {
            seals.clear();
        }
        seals.insert(seal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$2y$04$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234";

    #[test]
    fn lines_of_users() {
        let hash = HASH.parse().unwrap();
        assert_eq!(entry(&format!("ann:{HASH}")), Ok(("ann", hash)));
        for bad in [
            "ann".to_owned(),
            "ann:secret".to_owned(),
            format!(":{HASH}"),
        ] {
            assert!(entry(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn fields_with_credentials() {
        let read = |value: &[u8]| credentials(value).map(|c| (c.name, c.password));
        let ann = Some((b"ann".to_vec(), b"a:b".to_vec()));
        assert_eq!(read(b"Basic YW5uOmE6Yg=="), ann);
        assert_eq!(read(b"basic  YW5uOmE6Yg=="), ann);
        for bad in [
            &b""[..],
            b"Basic",
            b"Basic !",
            b"Bearer YW5uOmE6Yg==",
            b"Basic YW5u",
        ] {
            assert_eq!(read(bad), None);
        }
    }
}
