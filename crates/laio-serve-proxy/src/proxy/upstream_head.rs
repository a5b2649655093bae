//! The head of an upstream's response, and the fields that are passed on.

use super::fields::{VIA, has_word};
use laio_http::{Coding, Framing, Output, ResponseHead, Status, Version};
use laio_serve_base::field_names::is_one_of;
use laio_serve_base::server_name::SERVER_NAME;
use laio_serve_core::request::auth_state::{AuthState, PRIVATE};
use laio_serve_core::request::response::RequestContext;
use laio_serve_core::site::{alt_svc, hsts};

/// Fields that name a file to send instead of the body, and whether the file is removed afterwards.
const FILES: [(&str, bool); 4] = [
    ("X-Sendfile", false),
    ("X-LIGHTTPD-send-file", false),
    ("X-LIGHTTPD-send-temp-file", true),
    ("X-LIGHTTPD-send-tempfile", true),
];

/// Fields that the server sets itself when it sends a file.
const SET_FOR_FILES: [&str; 6] = [
    "Accept-Ranges",
    "Content-Range",
    "Date",
    "ETag",
    "Last-Modified",
    "Server",
];

/// Fields that describe the bytes of the content, which compression changes.
const OF_THE_PLAIN_CONTENT: [&str; 5] = [
    "Accept-Ranges",
    "Content-Digest",
    "Content-MD5",
    "Digest",
    "Repr-Digest",
];

/// The name and value of a field.
pub(super) type Field = (Box<[u8]>, Box<[u8]>);

/// The parsed head of an upstream's response.
#[derive(Clone)]
pub(super) struct UpstreamHead {
    pub(super) status: Status,
    /// None if the body ends with the connection.
    pub(super) framing: Option<Framing>,
    pub(super) keep_alive: bool,
    pub(super) file: Option<NamedFile>,
    /// The fields to pass on.
    pub(super) fields: Vec<Field>,
    /// The announced length, even where no body follows.
    pub(super) length: Option<Box<[u8]>>,
}

/// A file that an upstream asks the server to send.
#[derive(Clone)]
pub(super) struct NamedFile {
    pub(super) path: Box<[u8]>,
    pub(super) temporary: bool,
}

impl UpstreamHead {
    /// Returns a head without fields.
    pub(super) fn new(status: Status, framing: Option<Framing>, keep_alive: bool) -> UpstreamHead {
        UpstreamHead {
            status,
            framing,
            keep_alive,
            file: None,
            fields: Vec::new(),
            length: None,
        }
    }

    /// Adds a field that is passed on, or one that the server interprets.
    pub(super) fn add(&mut self, name: &[u8], value: &[u8]) {
        let named = FILES
            .iter()
            .find(|(own, _)| name.eq_ignore_ascii_case(own.as_bytes()));
        if let Some((_, temporary)) = named {
            self.file = Some(NamedFile {
                path: value.into(),
                temporary: *temporary,
            });
        } else if name.eq_ignore_ascii_case(b"Content-Length") {
            self.length = Some(value.into());
        } else {
            self.fields.push((name.into(), value.into()));
        }
    }

    /// Returns the file that the server sends in place of the body.
    pub(super) fn named_file(&self) -> Option<NamedFile> {
        let is_ok = self.status == Status::OK;
        self.file.clone().filter(|_| is_ok)
    }

    /// Writes the head for the client.
    pub(super) fn write(
        &self,
        ctx: RequestContext<'_>,
        out: &mut Output,
        chunked: bool,
        close: bool,
    ) {
        self.write_with(ctx, out, chunked, close, &[]);
    }

    /// Writes the head for the client, with these fields too.
    pub(super) fn write_with(
        &self,
        ctx: RequestContext<'_>,
        out: &mut Output,
        chunked: bool,
        close: bool,
        more: &[(&str, &[u8])],
    ) {
        let mut head = ResponseHead::new(out, self.status);
        if !self.has("Date") {
            head = head.date(ctx.date);
        }
        if !self.has("Server") {
            head = head.server(SERVER_NAME);
        }
        head = self.add_secure_fields(head, ctx);
        for (name, value) in &self.fields {
            head.add(name, value);
        }
        for (name, value) in more {
            head = head.header(name, value);
        }
        if ctx.auth.is_some_and(AuthState::has_let_in) && !self.has(PRIVATE.0) {
            head = head.header(PRIVATE.0, PRIVATE.1);
        }
        head = head.header("Via", format!("1.1 {VIA}").as_bytes());
        match &self.length {
            // 1xx and 204 have no length, even if the upstream sends one (RFC 9110, section 8.6).
            Some(length) if self.status.code() >= 200 && self.status != Status::NO_CONTENT => {
                head = head.header("Content-Length", length);
            }
            _ if chunked => head = head.header("Transfer-Encoding", b"chunked"),
            _ => {}
        }
        head.connection(ctx.request.version, ctx.keep_alive && !close)
            .finish();
    }

    /// Writes the head of a response that turns the connection into a tunnel.
    pub(super) fn write_upgrade(&self, ctx: RequestContext<'_>, out: &mut Output) {
        let mut head = ResponseHead::new(out, self.status).date(ctx.date);
        head = self.add_secure_fields(head, ctx);
        head = head.header("Connection", b"Upgrade");
        head = head.header("Upgrade", b"websocket");
        for (name, value) in &self.fields {
            head.add(name, value);
        }
        head.finish();
    }

    /// Returns the head of early hints for the client: the fields that browsers use. None without a link.
    pub(super) fn early_hints(&self) -> Option<Output> {
        let fields = self.fields.iter();
        early_hints(fields.map(|(name, value)| (&**name, &**value)))
    }

    /// Whether the body is sent in chunks to a client of this version. Otherwise, without a length,
    /// the body ends with the connection.
    pub(super) fn is_chunked(&self, version: Version) -> bool {
        self.ends_unannounced() && version == Version::Http11
    }

    /// Whether a body of unknown length follows.
    pub(super) fn ends_unannounced(&self) -> bool {
        matches!(self.framing, None | Some(Framing::Chunked))
    }

    /// Adds the upstream's fields to the head that the server wrote for a named file.
    pub(super) fn amend(&self, out: &mut Output, file_is_whole: bool) {
        let own_type = self.has("Content-Type") && file_is_whole;
        let mut replaced = vec![hsts::FIELD, alt_svc::FIELD, PRIVATE.0];
        replaced.retain(|name| self.has(name));
        replaced.extend(own_type.then_some("Content-Type"));
        out.change_fields(|head| {
            head.retain(|name| !is_one_of(name, &replaced));
            for (name, value) in &self.fields {
                let is_type = name.eq_ignore_ascii_case(b"Content-Type");
                if !(is_type && !own_type || is_one_of(name, &SET_FOR_FILES)) {
                    head.add(name, value);
                }
            }
            head.add(b"Via", format!("1.1 {VIA}").as_bytes());
        });
    }

    /// Adds `Strict-Transport-Security` and `Alt-Svc`, unless the upstream has sent its own, and the cookies of auth
    /// servers.
    fn add_secure_fields<'v>(
        &self,
        mut head: ResponseHead<'v>,
        ctx: RequestContext<'_>,
    ) -> ResponseHead<'v> {
        for (name, value) in [(hsts::FIELD, ctx.hsts), (alt_svc::FIELD, ctx.alt_svc)] {
            if let Some(value) = value.filter(|_| !self.has(name)) {
                head = head.header(name, value.as_bytes());
            }
        }
        match ctx.auth {
            Some(auth) => auth.add_cookies(head),
            None => head,
        }
    }

    /// Returns the fields to pass on.
    pub(super) fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the head for a response that some clients get compressed: with a coding, or as it is.
    pub(super) fn in_form(&self, coding: Option<Coding>) -> UpstreamHead {
        let mut head = self.clone();
        let mut vary = head
            .fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"Vary"));
        if !vary.any(|(_, list)| has_word(list, b"Accept-Encoding") || has_word(list, b"*")) {
            head.push("Vary", b"Accept-Encoding");
        }
        if let Some(coding) = coding {
            head.fields
                .retain(|(name, _)| !is_one_of(name, &OF_THE_PLAIN_CONTENT));
            head.push("Content-Encoding", coding.name().as_bytes());
            head.length = None;
            // The bytes are others, with the same meaning (RFC 9110, section 8.8.1).
            for (name, value) in &mut head.fields {
                if name.eq_ignore_ascii_case(b"ETag") && !value.starts_with(b"W/") {
                    *value = [b"W/", &**value].concat().into();
                }
            }
        }
        head
    }

    fn push(&mut self, name: &str, value: &[u8]) {
        self.fields.push((name.as_bytes().into(), value.into()));
    }

    /// Returns the first field of a name.
    pub(super) fn field(&self, name: &str) -> Option<&[u8]> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, value)| &**value)
    }

    /// Returns the announced length.
    pub(super) fn announced(&self) -> Option<u64> {
        let text = std::str::from_utf8(self.length.as_deref()?).ok()?;
        text.parse().ok()
    }

    pub(super) fn set_length(&mut self, length: usize) {
        self.length = Some(length.to_string().into_bytes().into());
        self.framing = Some(Framing::Length(length as u64));
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.fields
            .iter()
            .any(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()))
    }
}

/// Returns the head of early hints with those of these fields that browsers use. None without a link.
pub(super) fn early_hints<'f>(
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
) -> Option<Output> {
    let mut out = Output::default();
    let mut head = ResponseHead::new(&mut out, Status::EARLY_HINTS);
    let mut has_link = false;
    for (name, value) in fields {
        has_link |= name.eq_ignore_ascii_case(b"Link");
        if is_one_of(name, &["Link", "Content-Security-Policy"]) {
            head.add(name, value);
        }
    }
    head.finish();
    has_link.then_some(out)
}
