//! A request in progress, and its response: a [`Response`] is decided and not yet sent.

use super::auth_state::AuthState;
use super::directory_answer::DirectoryAnswer;
use super::generated_body::GeneratedBody;
use crate::files::contents::{Contents, Opened};
use crate::services::Services;
use crate::site::message_fields::{Answered, ForwardedRequest};
use crate::site::{Site, alt_svc, hsts};
use laio_http::{
    ByteRange, ContentType, HttpDate, Method, Multipart, Output, Request, RequestPath,
    ResponseHead, Status,
};
use laio_serve_base::clients::Client;
use laio_serve_base::server_name::SERVER_NAME;
use laio_serve_base::trace;
use laio_serve_upstream::group;
use laio_serve_upstream::route::Route;

/// A response. The output buffer holds its head and perhaps a page; `body` follows that.
pub struct Response {
    pub status: Status,
    pub body: Body,
    /// The length of the body, for the log: in the output buffer or read from a file.
    pub length: u64,
    /// Whether a file of the site answers, whose name the rules for fields compare.
    pub of_file: bool,
    /// Whether the rules for fields have been applied to the head.
    pub is_ruled: bool,
}

/// The part of a response that follows the output buffer.
pub enum Body {
    Nothing,
    File(Contents, ByteRange),
    /// Several ranges, each with a header of its own.
    Parts(Contents, Box<Multipart>),
    /// Made while it is sent.
    Generated(Box<dyn GeneratedBody>),
}

/// A request, and the other inputs of its response.
#[derive(Clone, Copy)]
pub struct RequestContext<'a> {
    pub request: &'a Request<'a>,
    /// The request as the client sent it, if it was rewritten.
    pub before_rewrite: Option<&'a Request<'a>>,
    pub site: &'a Site,
    /// What auth servers have said about the request, if the site has any.
    pub auth: Option<&'a AuthState<'a>>,
    /// Who sends the request.
    pub client: &'a Client,
    pub date: &'a HttpDate,
    pub second: i64,
    pub keep_alive: bool,
    /// Whether the client uses https.
    pub secure: bool,
    /// The value of `Strict-Transport-Security`, if the client uses https.
    pub hsts: Option<&'a str>,
    /// The value of `Alt-Svc`, if the server has HTTP/3 at the address of the connection.
    pub alt_svc: Option<&'a str>,
    /// The features that answer some requests for directories.
    pub directory_answers: &'a [Box<dyn DirectoryAnswer>],
    /// The response depends on the `Accept` field.
    pub varies_by_accept: bool,
    /// Bytes of the largest cached file that is copied to the output buffer. Others are sent in pieces.
    pub inline_body: usize,
}

impl<'a> RequestContext<'a> {
    /// Returns the context of a request for the site of its host. `date` and `second` are those of the
    /// response; `secure` says that the client uses https.
    pub fn new(
        services: &'a Services,
        request: &'a Request<'a>,
        client: &'a Client,
        (date, second): (&'a HttpDate, i64),
        keep_alive: bool,
        secure: bool,
    ) -> RequestContext<'a> {
        let site = services.sites.of(request.host);
        RequestContext {
            request,
            before_rewrite: None,
            auth: None,
            client,
            site,
            hsts: site.hsts.as_deref().filter(|_| secure),
            alt_svc: None,
            date,
            second,
            keep_alive,
            secure,
            directory_answers: &[],
            varies_by_accept: false,
            inline_body: usize::MAX,
        }
    }
}

impl<'a> RequestContext<'a> {
    /// Lets the request be answered as if it were this one.
    pub fn rewritten_as(self, request: &'a Request<'a>) -> RequestContext<'a> {
        RequestContext {
            request,
            before_rewrite: Some(self.request),
            ..self
        }
    }

    /// Returns the request as the client sent it.
    pub(crate) fn as_sent(&self) -> &'a Request<'a> {
        self.before_rewrite.unwrap_or(self.request)
    }

    /// Returns what the rules for requests to upstreams depend on.
    pub fn forwarded(&self) -> ForwardedRequest<'a> {
        ForwardedRequest {
            request: self.request,
            before_rewrite: self.before_rewrite,
            client: self.client,
            secure: self.secure,
        }
    }

    /// Returns the redirect of the path, whose name is `name`. A rewritten path has none: it was not asked for.
    pub fn moved(&self, name: &[u8], directory: bool) -> Option<(Status, Vec<u8>)> {
        match self.before_rewrite {
            None => self.site.redirects.of(name, directory, self.request.query),
            Some(_) => None,
        }
    }

    /// Returns the route to the upstream that answers the request before files are looked for, if
    /// there is one.
    pub fn route(&self) -> Option<(&'a Route, &'a RequestPath<'a>)> {
        if self.site.asks_upstreams_later() {
            return None;
        }
        self.upstream()
    }

    /// Returns the route to the upstream whose prefix the path has, if there is one.
    pub fn upstream(&self) -> Option<(&'a Route, &'a RequestPath<'a>)> {
        let path = self.request.path.as_ref().ok()?;
        Some((group::route(&self.site.routes, path)?, path))
    }
}

impl RequestContext<'_> {
    /// Notes which site answers, and which fields all its responses have.
    pub fn note_site(&self) {
        trace::note("site", || self.site.described(self.request.host));
        if let Some(value) = &self.site.hsts {
            trace::note("hsts", || match self.hsts {
                Some(_) => format!("--hsts sets {}: {value}", hsts::FIELD),
                None => format!("--hsts sets {} only over TLS", hsts::FIELD),
            });
        }
        if let Some(cors) = &self.site.cors {
            trace::note("cors", || cors.described(self.request));
        }
    }

    /// Begins a head with the fields common to all responses.
    pub fn head<'v>(&self, out: &'v mut Output, status: Status) -> ResponseHead<'v> {
        let mut head = ResponseHead::new(out, status)
            .date(self.date)
            .server(SERVER_NAME);
        if let Some(hsts) = self.hsts {
            head = head.header(hsts::FIELD, hsts.as_bytes());
        }
        if let Some(alt_svc) = self.alt_svc {
            head = head.header(alt_svc::FIELD, alt_svc.as_bytes());
        }
        if let Some(auth) = self.auth {
            head = auth.add_fields(head, self.site);
        }
        if self.varies_by_accept {
            head = head.vary("Accept");
        }
        match &self.site.cors {
            Some(cors) => cors.add(head, self.request),
            None => head,
        }
    }

    /// Ends a head with the fields common to all responses.
    pub fn finish<'v>(&self, head: ResponseHead<'v>) -> &'v mut Vec<u8> {
        head.connection(self.request.version, self.keep_alive)
            .finish()
    }

    /// Finishes a response whose body has `length` bytes and is sent after the head, unless the
    /// method is HEAD.
    pub(crate) fn with_body(
        &self,
        head: ResponseHead<'_>,
        status: Status,
        length: u64,
        body: Body,
    ) -> Response {
        self.finish(head.content_length(length));
        self.response(status, length).with_body(body)
    }

    /// Finishes a response with a page.
    pub(crate) fn with_page(
        &self,
        head: ResponseHead<'_>,
        status: Status,
        content_type: ContentType,
        page: &[u8],
    ) -> Response {
        let length = page.len() as u64;
        let out = self.finish(head.content_type(content_type).content_length(length));
        if self.sends_body() {
            out.extend_from_slice(page);
        }
        self.response(status, length)
    }

    /// Finishes a response with a whole cached file. Returns none, with `out` unchanged, if the
    /// fields of the file are not known.
    pub(crate) fn with_cached_file(&self, out: &mut Output, opened: &Opened) -> Option<Response> {
        let fields = opened.fields.as_ref()?.get()?;
        let head = self.head(out, Status::OK).copied_fields(fields);
        let rules = self.site.response_rules.as_ref();
        Some(Response {
            is_ruled: rules.is_none_or(|rules| rules.suit_cached_files),
            of_file: true,
            ..self.with_whole_file(head, opened)
        })
    }

    /// Finishes a response with a whole file.
    pub(crate) fn with_whole_file(&self, head: ResponseHead<'_>, opened: &Opened) -> Response {
        let out = self.finish(head);
        let size = opened.status.size();
        let response = self.response(Status::OK, size);
        match &opened.contents {
            Contents::Memory(bytes)
                if self.site.speeds.is_empty() && bytes.len() <= self.inline_body =>
            {
                if self.sends_body() {
                    out.extend_from_slice(bytes);
                }
                response
            }
            contents => {
                let range = ByteRange {
                    start: 0,
                    end: size,
                };
                response.with_body(Body::File(contents.clone(), range))
            }
        }
    }

    /// Whether the request has conditional or range fields, so that its response depends on more than
    /// the file.
    pub(crate) fn has_conditions(&self) -> bool {
        self.request.headers.iter().any(|(name, _)| {
            let conditional = name
                .get(..3)
                .is_some_and(|start| start.eq_ignore_ascii_case(b"if-"));
            conditional || name.eq_ignore_ascii_case(b"range")
        })
    }

    /// Returns how many bytes at the beginning of a plain file will be sent at once, if there is one: 0 where
    /// that is not certain before the file is open.
    pub(crate) fn sent_at_once(&self, services: &Services) -> usize {
        let is_plain = self.site.precompressed.is_empty() && self.request.method == Method::Get;
        let waits_elsewhere = !services.contexts.sync && !services.contexts.reads_directly;
        if is_plain && waits_elsewhere && !self.has_conditions() {
            services.chunk
        } else {
            0
        }
    }

    /// Returns a response whose body has `length` bytes, unless the method is HEAD.
    pub fn response(&self, status: Status, length: u64) -> Response {
        let length = if self.sends_body() { length } else { 0 };
        Response {
            length,
            ..Response::bare(status)
        }
    }

    /// Applies the rules for fields to the head of a response in `out`. `name` is that of the file, if a file
    /// answers.
    #[inline]
    pub fn apply_rules(&self, response: &Response, name: &[u8], out: &mut Output) {
        if let Some(rules) = &self.site.response_rules
            && !response.is_ruled
        {
            let answered = Answered {
                request: Some(self.request),
                before_rewrite: self.before_rewrite,
                file: Some(name).filter(|_| response.of_file),
                status: response.status,
            };
            rules.apply(answered, out);
        }
    }

    /// Whether the response may have a body.
    pub fn sends_body(&self) -> bool {
        self.request.method != Method::Head
    }
}

impl Response {
    /// Returns a response without a body.
    pub fn bare(status: Status) -> Response {
        Response {
            status,
            body: Body::Nothing,
            length: 0,
            of_file: false,
            is_ruled: false,
        }
    }

    /// Marks the response as that of a file of the site.
    pub fn of_file(self) -> Response {
        Response {
            of_file: true,
            ..self
        }
    }

    /// Sets the body, unless the response has none.
    fn with_body(mut self, body: Body) -> Response {
        if self.length > 0 {
            self.body = body;
        }
        self
    }
}
