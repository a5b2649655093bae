//! A FastCGI program that records its requests.

use laio_http::fastcgi::{self, Head, PARAMS, STDIN, STDOUT, params, push_end, push_stream};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    params: BTreeMap<String, Vec<u8>>,
    pub(crate) body: Vec<u8>,
}

impl Call {
    /// Returns a variable, or an empty text if it is missing.
    pub(crate) fn get(&self, name: &str) -> &str {
        let value = self.params.get(name).map_or(&b""[..], Vec::as_slice);
        std::str::from_utf8(value).unwrap()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.params.contains_key(name)
    }
}

/// Answers every request with 200 and `program`.
pub(crate) struct Program {
    address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Program {
    pub(crate) fn start() -> Program {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::<Mutex<Vec<Call>>>::default();
        let stop = Arc::<AtomicBool>::default();
        let thread = std::thread::spawn({
            let (calls, stop) = (calls.clone(), stop.clone());
            move || {
                for stream in listener.incoming() {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let (calls, stream) = (calls.clone(), stream.unwrap());
                    stream
                        .set_read_timeout(Some(Duration::from_secs(60)))
                        .unwrap();
                    std::thread::spawn(move || serve(stream, &calls));
                }
            }
        });
        Program {
            address,
            calls,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns all requests so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn serve(mut stream: TcpStream, calls: &Mutex<Vec<Call>>) {
    while let Some(call) = read(&mut stream) {
        calls.lock().unwrap().push(call);
        let mut out = Vec::new();
        push_stream(
            &mut out,
            STDOUT,
            b"Status: 200\nContent-Length: 7\n\nprogram",
        );
        push_end(&mut out, 0);
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}

/// Returns none when the connection has ended.
fn read(stream: &mut TcpStream) -> Option<Call> {
    let (mut described, mut body) = (Vec::new(), Vec::new());
    loop {
        let mut head = [0; fastcgi::HEAD];
        stream.read_exact(&mut head).ok()?;
        let head = Head::parse(head).unwrap();
        let mut content = vec![0; usize::from(head.content) + usize::from(head.padding)];
        stream.read_exact(&mut content).ok()?;
        content.truncate(head.content.into());
        match head.kind {
            PARAMS => described.extend(content),
            STDIN if content.is_empty() => break,
            STDIN => body.extend(content),
            _ => {}
        }
    }
    let params = params(&described).unwrap().into_iter();
    let params = params.map(|(name, value)| {
        let name = String::from_utf8(name.to_vec()).unwrap();
        (name, value.to_vec())
    });
    Some(Call {
        params: params.collect(),
        body,
    })
}
