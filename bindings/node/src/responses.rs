//! Responses with the files below a directory, for web servers written in JavaScript.

use crate::answer::{Answer, Outcome, Value};
use crate::engine::{Engine, Memory, engine};
use laio::below::{BelowStep, OpenBelow};
use laio::ops::{FileStatus, Limit, OpenFile, ReadAt};
use laio_http::files::{Attributes, Body, Failure, FileResponse, FileRules, Found, Lookup, Part};
use libc::{RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS};
use napi::{Env, Error, Result};
use napi_derive::napi;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::ops::ControlFlow::Break;
use std::os::unix::fs::OpenOptionsExt;
use std::rc::Rc;
use std::time::SystemTime;

/// Bodies up to this size are part of the answer, in bytes: with the fields they fit into the scratch memory.
const SMALL: u64 = 48 * 1024;

/// A directory whose files are served, and the rules for them.
#[napi]
pub struct Files(Rc<Config>);

struct Config {
    root: OpenFile,
    rules: FileRules,
    /// How `openat2` resolves names.
    resolve: u64,
}

#[napi]
impl Files {
    /// Opens the directory, which may block. `symlinks`: "within", "refuse" or "follow".
    #[napi(constructor)]
    pub fn new(
        directory: String,
        index: Vec<String>,
        precompressed: Vec<String>,
        dotfiles: bool,
        symlinks: String,
    ) -> Result<Files> {
        let resolve = match &symlinks[..] {
            "within" => RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
            "refuse" => RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
            "follow" => 0,
            _ => {
                return Err(Error::from_reason(
                    "symlinks must be within, refuse or follow",
                ));
            }
        };
        let codings = precompressed.iter().map(|coding| coding.parse());
        let precompressed = codings.collect::<std::result::Result<_, _>>();
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_DIRECTORY);
        Ok(Files(Rc::new(Config {
            root: OpenFile::from(options.open(directory)?),
            rules: FileRules {
                index,
                precompressed: precompressed.map_err(Error::from_reason)?,
                dotfiles,
            },
            resolve,
        })))
    }

    /// Decides the response to a request. The scratch memory begins with its head, of this length, written
    /// as in HTTP/1.1.
    ///
    /// The bytes of the answer are the length of a text (32 bits), the text, and bytes of the body. The
    /// text has, with zero bytes between them: the status; the number of an open file, or -1; the parts of
    /// the body; and names and values of the fields in turn. A part is a number of the bytes of the body,
    /// or begin and end in the file.
    #[napi]
    pub fn respond(&self, env: Env, length: u32) -> Result<Answer> {
        let engine = engine()?;
        let head = engine.scratch()[..length as usize].to_vec();
        let call = respond(engine.clone(), self.0.clone(), head);
        engine.run(env, Memory::Scratch, call)
    }
}

async fn respond(engine: Rc<Engine>, config: Rc<Config>, head: Vec<u8>) -> Outcome {
    let mut lookup = Lookup::new(&config.rules, head);
    loop {
        match lookup {
            Lookup::Open(search) => {
                let found = find(&engine, &config, search.name()).await;
                lookup = search.found(&config.rules, found, unix_time());
            }
            Lookup::Respond(response) => return encode(&engine, response).await,
        }
    }
}

async fn find(
    engine: &Engine,
    config: &Config,
    name: &[u8],
) -> std::result::Result<Found<OpenFile>, Failure> {
    let (file, status) = open_below(engine, config, name).await?;
    let modified = status.modified();
    let attributes = Attributes {
        inode: status.inode(),
        size: status.size(),
        modified: (modified.seconds, modified.nanoseconds),
    };
    Ok(Found::from_mode(file, status.mode(), attributes))
}

async fn open_below(
    engine: &Engine,
    config: &Config,
    name: &[u8],
) -> io::Result<(OpenFile, FileStatus)> {
    let proactor = engine.proactor;
    let mut opening = OpenBelow::new(config.root.clone(), CString::new(name)?, config.resolve);
    loop {
        let after = match opening.step()? {
            BelowStep::Open(open) => opening.opened(proactor.submit(open).await),
            BelowStep::Component(open) => opening.component_opened(proactor.submit(open).await),
            BelowStep::ReadLink(read) => opening.link_read(proactor.submit(read).await),
            BelowStep::Stat(stat) => opening.examined(proactor.submit(stat).await),
        };
        if let Break(found) = after {
            return found;
        }
    }
}

/// The bytes of an answer; see [`Files::respond`].
async fn encode(engine: &Engine, response: FileResponse<OpenFile>) -> Outcome {
    let (file, mut parts) = match response.body {
        Body::Empty => (None, Vec::new()),
        Body::Bytes(bytes) => (None, vec![Part::Bytes(bytes)]),
        Body::File { file, parts } => (Some(file), parts),
    };
    let mut fd = -1;
    if let Some(file) = file {
        let is_small = parts.iter().map(Part::len).sum::<u64>() <= SMALL;
        if is_small && read(engine, &file, &mut parts).await {
            engine.drop_file(file).await;
        } else {
            fd = engine.keep(file);
        }
    }
    let mut text = format!("{}\0{fd}\0", response.status.code()).into_bytes();
    let places = parts.iter().map(|part| match part {
        Part::Bytes(bytes) => bytes.len().to_string(),
        Part::Range(range) => format!("{}-{}", range.start, range.end),
    });
    text.extend_from_slice(places.collect::<Vec<_>>().join(",").as_bytes());
    for (name, value) in &response.fields {
        text.push(0);
        text.extend_from_slice(name.as_bytes());
        text.push(0);
        text.extend_from_slice(value);
    }
    let length = u32::try_from(text.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut answer = engine.memory(0);
    answer.extend_from_slice(&length.to_le_bytes());
    answer.extend_from_slice(&text);
    for part in &parts {
        if let Part::Bytes(bytes) = part {
            answer.extend_from_slice(bytes);
        }
    }
    Ok(Value::Bytes(answer))
}

/// Reads all ranges. False if one cannot be read: JavaScript then meets the same.
async fn read(engine: &Engine, file: &OpenFile, parts: &mut [Part]) -> bool {
    for part in parts {
        let Part::Range(range) = part else { continue };
        let length = range.len() as usize;
        let place = Limit::new(Vec::with_capacity(length), length);
        let read = ReadAt::new(file.clone(), place, range.start);
        match engine.proactor.submit(read).await {
            (Ok(count), bytes) if count == length => *part = Part::Bytes(bytes.into_inner()),
            _ => return false,
        }
    }
    true
}

fn unix_time() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}
