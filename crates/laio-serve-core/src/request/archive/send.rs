//! Reading the files of an archive while it is sent.

use super::format::{BLOCK, Member, push_end, push_stored, stored_length};
use super::walk::open;
use crate::files::contents::Contents;
use crate::files::read::read;
use crate::files::resolve::enter;
use crate::files::uncached::FLAGS;
use crate::request::generated_body::{GeneratedBody, NextPiece};
use crate::request::variant::is_compressible;
use crate::services::Services;
use crate::site::Site;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use laio_http::ContentType;
use laio_rt::sync::Permit;
use laio_serve_base::messages::print;
use rustix::fs::OFlags;
use std::io::{self, Write};

/// An archive being sent. The number is limited, because each holds the names of its files.
pub(super) struct Archive {
    /// The number of the site that has the directory.
    site: usize,
    /// The directory, below the root.
    top: Box<[u8]>,
    members: Vec<Member>,
    /// The member that is sent.
    next: usize,
    file: Option<OpenMember>,
    deflates: bool,
    /// The first bytes, made before the response begins, and whether they are also the last.
    first: Option<(Vec<u8>, bool)>,
    /// Bytes of the archive so far.
    offset: u64,
    length: u64,
    _permit: Permit,
}

/// A file that is being packed.
struct OpenMember {
    contents: Contents,
    /// Bytes read so far.
    done: u64,
    crc: Crc,
    /// None if the file is not compressed.
    encoder: Option<DeflateEncoder<Vec<u8>>>,
}

/// Level 9 takes three times as long to save two percent.
const LEVEL: u32 = 5;

impl Archive {
    pub(super) fn new(
        site: usize,
        top: &[u8],
        members: Vec<Member>,
        deflates: bool,
        permit: Permit,
    ) -> Archive {
        Archive {
            site,
            top: top.into(),
            length: stored_length(&members),
            members,
            next: 0,
            file: None,
            deflates,
            first: None,
            offset: 0,
            _permit: permit,
        }
    }

    /// Makes the first bytes, so that a file that cannot be read at once is an error.
    ///
    /// # Errors
    /// Like [`next_piece`].
    pub(super) async fn begin(&mut self, services: &Services, site: &Site) -> io::Result<()> {
        let mut first = Vec::new();
        let last = push_piece(services, site, self, &mut first).await?;
        self.first = Some((first, last));
        Ok(())
    }

    /// Returns the length of the archive, if nothing is compressed.
    pub(super) fn length(&self) -> u64 {
        self.length
    }
}

impl GeneratedBody for Archive {
    fn next_piece<'a>(
        &'a mut self,
        services: &'a Services,
        out: &'a mut Vec<u8>,
        framed: bool,
    ) -> NextPiece<'a> {
        Box::pin(next_piece(services, self, out, framed))
    }
}

/// Appends the next bytes of an archive to `out`, framed as in HTTP/1.1 (RFC 9112, section 7.1) if they have no known
/// length. Returns whether they were the last.
///
/// # Errors
/// When a file cannot be read, or has become shorter. The response is then incomplete, which the client notices.
async fn next_piece(
    services: &Services,
    archive: &mut Archive,
    out: &mut Vec<u8>,
    framed: bool,
) -> io::Result<bool> {
    let site = services.sites.get(archive.site);
    let site = site.ok_or(io::ErrorKind::NotFound)?;
    let mut piece = Vec::new();
    let made = match archive.first.take() {
        Some((first, last)) => {
            piece = first;
            Ok(last)
        }
        None => push_piece(services, site, archive, &mut piece).await,
    };
    let last = match made {
        Ok(last) => last,
        Err(error) => {
            let member = archive.members.get(archive.next);
            let name = member.map(|it| String::from_utf8_lossy(&it.name).into_owned());
            print(format_args!(
                "a zip file of /{} ends early: cannot read {} in it: {error}",
                String::from_utf8_lossy(&archive.top),
                name.unwrap_or_default()
            ));
            return Err(error);
        }
    };
    archive.offset += piece.len() as u64;
    if framed && archive.deflates {
        // An empty chunk would end the body.
        if !piece.is_empty() {
            write!(out, "{:x}\r\n", piece.len())?;
            out.extend_from_slice(&piece);
            out.extend_from_slice(b"\r\n");
        }
        if last {
            out.extend_from_slice(b"0\r\n\r\n");
        }
    } else {
        out.extend_from_slice(&piece)
    }
    Ok(last)
}

async fn push_piece(
    services: &Services,
    site: &Site,
    archive: &mut Archive,
    out: &mut Vec<u8>,
) -> io::Result<bool> {
    // Small files together, so that each does not take a send of its own.
    while out.len() < BLOCK {
        if archive.next == archive.members.len() {
            let offset = archive.offset + out.len() as u64;
            push_end(out, &archive.members, offset);
            return Ok(true);
        }
        push_part(services, site, archive, out).await?;
    }
    Ok(false)
}

/// Appends the head, or some of the data, of a member.
async fn push_part(
    services: &Services,
    site: &Site,
    archive: &mut Archive,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let member = &mut archive.members[archive.next];
    let Some(file) = &mut archive.file else {
        let is_directory = member.is_directory();
        if !is_directory {
            let mut name = archive.top.to_vec();
            enter(&mut name, &member.name);
            archive.file = Some(open_member(services, site, &name, archive.deflates).await?);
        }
        member.push_head(out, archive.offset + out.len() as u64);
        archive.next += usize::from(is_directory);
        return Ok(());
    };
    let most = (member.size - file.done).min(BLOCK as u64) as usize;
    let mut data = Vec::with_capacity(most);
    while data.len() < most {
        let (left, offset) = (most - data.len(), file.done + data.len() as u64);
        let (contexts, limits) = (&services.contexts, &services.limits);
        data = read(contexts, limits, &file.contents, data, left, offset).await?;
    }
    file.done += most as u64;
    file.crc.update(&data);
    let last = file.done == member.size;
    let before = out.len();
    match file.encoder.take() {
        None => push_stored(out, &data, last),
        Some(mut encoder) => {
            let job = move || -> io::Result<_> {
                encoder.write_all(&data)?;
                if last {
                    return Ok((encoder.finish()?, None));
                }
                let made = std::mem::take(encoder.get_mut());
                Ok((made, Some(encoder)))
            };
            let made = services.cpu_pool.run(job).await;
            let (made, encoder) = made.ok_or(io::ErrorKind::Other)??;
            out.extend_from_slice(&made);
            file.encoder = encoder;
        }
    }
    member.packed += (out.len() - before) as u64;
    if last {
        member.crc = file.crc.sum();
        member.push_descriptor(out);
        archive.file = None;
        archive.next += 1;
    }
    Ok(())
}

async fn open_member(
    services: &Services,
    site: &Site,
    name: &[u8],
    deflates: bool,
) -> io::Result<OpenMember> {
    let file = open(services, site, name, FLAGS).await?;
    // The name may be that of a FIFO by now.
    let status = services
        .contexts
        .submit(
            laio_serve_base::options::IoStep::Stat,
            laio::ops::StatFile::new(file.clone()),
        )
        .await?;
    if !status.is_file() {
        return Err(io::Error::other("it is not a file any more"));
    }
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    let compresses = deflates && is_compressible(ContentType::of_path(name).essence);
    Ok(OpenMember {
        contents: Contents::File(file),
        done: 0,
        crc: Crc::new(),
        encoder: compresses.then(|| DeflateEncoder::new(Vec::new(), Compression::new(LEVEL))),
    })
}
