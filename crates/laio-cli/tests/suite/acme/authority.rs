//! Pebble, an authority for tests, and the DNS that it asks.

use crate::common::server::{LONG, wait_until};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;

/// How an authority is set up.
pub(super) struct Setup {
    /// The lifetime of certificates in seconds.
    pub(super) lifetime: u32,
    /// One in a hundred requests that it refuses because of its nonce.
    pub(super) bad_nonces: u32,
    /// The pause before it is asked for a status again, in seconds.
    pub(super) poll_seconds: u32,
    /// A new account needs an external one.
    pub(super) needs_external_account: bool,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            lifetime: 90 * 24 * 3600,
            bad_nonces: 20,
            poll_seconds: 1,
            needs_external_account: false,
        }
    }
}

/// The identifier and the key of the external account.
pub(super) const EXTERNAL_ACCOUNT: &str =
    "kid-1 zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

/// An authority that is running, or stopped for a while. It is at the same address afterwards.
pub(super) struct Authority {
    program: PathBuf,
    dir: PathBuf,
    dns: SocketAddr,
    bad_nonces: u32,
    ports: [u16; 4],
    process: Option<Child>,
}

impl Authority {
    /// Starts Pebble with its files in a directory, or skips the test.
    pub(super) fn start(dir: &Path, setup: &Setup) -> Option<Authority> {
        if laio_testing::lacks("pebble") {
            return None;
        }
        let program = laio_testing::needs::pebble()?;
        let dir = dir.join("pebble");
        fs::create_dir_all(&dir).unwrap();
        let own = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(own).unwrap();
        fs::write(dir.join("cert.pem"), made.cert.pem()).unwrap();
        fs::write(dir.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        let ports = free_ports();
        let [directory, management, http, tls] = ports;
        let (kid, key) = EXTERNAL_ACCOUNT.split_once(' ').unwrap();
        let config = serde_json::json!({"pebble": {
            "listenAddress": format!("127.0.0.1:{directory}"),
            "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": dir.join("cert.pem"),
            "privateKey": dir.join("key.pem"),
            "httpPort": http,
            "tlsPort": tls,
            "externalAccountBindingRequired": setup.needs_external_account,
            "externalAccountMACKeys": { kid: key },
            "domainBlocklist": ["blocked.net"],
            "retryAfter": {"authz": setup.poll_seconds, "order": setup.poll_seconds},
            "keyAlgorithm": "ecdsa",
            "profiles": {"default": {"description": "", "validityPeriod": setup.lifetime}},
        }});
        fs::write(dir.join("config.json"), config.to_string()).unwrap();
        let mut authority = Authority {
            program,
            dir,
            dns: start_dns(),
            bad_nonces: setup.bad_nonces,
            ports,
            process: None,
        };
        authority.resume();
        Some(authority)
    }

    /// Starts the process. It knows nothing of what was before.
    pub(super) fn resume(&mut self) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("log"));
        let mut command = Command::new(&self.program);
        command
            .arg("-config")
            .arg(self.dir.join("config.json"))
            .args(["-dnsserver", &self.dns.to_string()])
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", self.bad_nonces.to_string())
            // A renewal is checked like a first order.
            .env("PEBBLE_AUTHZREUSE", "0")
            .stdout(log.unwrap())
            .stderr(std::process::Stdio::null());
        self.process = Some(command.spawn().unwrap());
        for port in [self.ports[0], self.ports[1]] {
            wait_until("Pebble listens", || {
                TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
        }
    }

    /// Ends the process.
    pub(super) fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// The flags of a server that trusts the authority, and listens where the authority looks.
    pub(super) fn flags(&self) -> Vec<String> {
        let [directory, ..] = self.ports;
        let words = [
            format!("--acme-directory=https://localhost:{directory}/dir"),
            format!("--acme-ca={}", self.dir.join("cert.pem").display()),
            format!("--listen=tls:{}", self.tls()),
        ];
        words.into()
    }

    pub(super) fn http(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[2]))
    }

    pub(super) fn tls(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[3]))
    }

    /// Returns the root certificate with which the authority signs, until it is stopped.
    pub(super) fn root(&self) -> CertificateDer<'static> {
        let answer = self.manage("GET", "/roots/0", "");
        CertificateDer::from_pem_slice(&answer).unwrap()
    }

    /// Lets the authority suggest to renew a certificate now.
    pub(super) fn suggest_renewal(&self, certificate: &str) {
        let window = r#"{"suggestedWindow": {"start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z"}}"#;
        let body = serde_json::json!({"Certificate": certificate, "ARIResponse": window});
        let answer = self.manage("POST", "/set-renewal-info/", &body.to_string());
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    }

    /// Makes a request that is only for tests.
    fn manage(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        let own = CertificateDer::from_pem_file(self.dir.join("cert.pem")).unwrap();
        let management = SocketAddr::from(([127, 0, 0, 1], self.ports[1]));
        let mut stream = connect(management, &own, "localhost").unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nUser-Agent: laio\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    /// Returns how many orders it has accepted.
    pub(super) fn orders(&self) -> usize {
        self.logged("Added order")
    }

    /// Returns how many names it has checked with success.
    pub(super) fn checked(&self) -> usize {
        self.logged("set VALID by completed challenge")
    }

    fn logged(&self, text: &str) -> usize {
        let log = fs::read_to_string(self.dir.join("log")).unwrap();
        log.matches(text).count()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(super) type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// Returns a connection with TLS, of a client that trusts one certificate. The handshake is still to come.
pub(super) fn connect(
    address: SocketAddr,
    root: &CertificateDer<'static>,
    name: &str,
) -> std::io::Result<Encrypted> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    // The server may not listen yet.
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(LONG)).unwrap();
    Ok(StreamOwned::new(connection, socket))
}

/// Returns ports that are free now: Pebble gets its ports as numbers, so the kernel cannot choose them.
pub(super) fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    let listeners = [(); COUNT].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// Answers that every name is at 127.0.0.1, until the test ends.
fn start_dns() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || while answer_query(&client).is_some() {});
        }
    });
    address
}

/// Pebble asks over TCP, where each message has its length before it.
fn answer_query(mut client: &TcpStream) -> Option<()> {
    let mut length = [0; 2];
    client.read_exact(&mut length).ok()?;
    let mut query = vec![0; u16::from_be_bytes(length).into()];
    client.read_exact(&mut query).ok()?;
    let answer = answer(&query)?;
    let length = u16::try_from(answer.len()).ok()?.to_be_bytes();
    client.write_all(&[&length[..], &answer].concat()).ok()
}

/// Returns the answer to a query with one question (RFC 1035, section 4).
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    const TYPE_A: [u8; 2] = [0, 1];
    let mut end = HEADER;
    while *query.get(end)? > 0 {
        end += 1 + usize::from(query[end]);
    }
    let question = query.get(HEADER..end + 5)?;
    let has_address = question[question.len() - 4..][..2] == TYPE_A;
    let mut answer = query.get(..2)?.to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, has_address.into(), 0, 0, 0, 0]);
    answer.extend(question);
    if has_address {
        // The name of the question, class IN, one second, four bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}
