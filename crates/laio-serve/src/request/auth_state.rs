//! What auth servers have said about one request.

use super::auth_servers::AuthServers;
use crate::clients::Peer;
use crate::net::client_watch::ClientWatch;
use crate::options;
use crate::site::Site;
use crate::site::auth_request::AuthRequests;
use laio_http::log::AddedField;
use laio_http::{Request, ResponseHead};
use std::borrow::Cow;
use std::cell::{Ref, RefCell};

/// The field of responses to requests that were let in, unless it is set otherwise: no cache may answer others with
/// them.
pub(crate) const PRIVATE: (&str, &[u8]) = ("Cache-Control", b"private");

/// What auth servers have said about a request.
pub(crate) struct AuthState<'a> {
    pub(crate) rules: &'a AuthRequests,
    pub(crate) servers: &'a dyn AuthServers,
    /// The request as the client sent it.
    pub(crate) sent: &'a Request<'a>,
    /// The peer of the connection.
    pub(crate) peer: Peer,
    /// Notices that the client leaves while a server is asked.
    pub(crate) client: ClientWatch,
    answers: RefCell<Answers>,
}

/// The answers that let the request in.
#[derive(Default)]
struct Answers {
    /// The numbers of their rules.
    rules: Vec<usize>,
    /// The copied fields.
    fields: Vec<AddedField>,
    /// The values of fields that set cookies.
    cookies: Vec<Box<[u8]>>,
}

impl<'a> AuthState<'a> {
    /// Returns the state of a request that no auth server has seen.
    pub(crate) fn new(
        rules: &'a AuthRequests,
        servers: &'a dyn AuthServers,
        sent: &'a Request<'a>,
        peer: &Peer,
        client: ClientWatch,
    ) -> AuthState<'a> {
        AuthState {
            rules,
            servers,
            sent,
            peer: peer.clone(),
            client,
            answers: RefCell::default(),
        }
    }

    /// Whether a rule has let the request in.
    pub(crate) fn is_let_in_by(&self, rule: usize) -> bool {
        self.answers.borrow().rules.contains(&rule)
    }

    /// Whether any rule has let the request in.
    pub(crate) fn has_let_in(&self) -> bool {
        !self.answers.borrow().rules.is_empty()
    }

    /// Notes that a rule has let the request in, and the fields of the answer. Of several answers with a field, the
    /// last one counts.
    pub(crate) fn let_in<'f>(
        &self,
        rule: usize,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) {
        let mut answers = self.answers.borrow_mut();
        answers.rules.push(rule);
        let mut copied: Vec<AddedField> = Vec::new();
        for (name, value) in fields {
            for to in self.rules.copies(name) {
                if copied.len() < options::AuthRequests::COPIED {
                    copied.push((to.as_bytes().into(), value.into()));
                }
            }
            if self.rules.passes_cookies
                && name.eq_ignore_ascii_case(b"Set-Cookie")
                && answers.cookies.len() < options::AuthRequests::COOKIES
            {
                answers.cookies.push(value.into());
            }
        }
        let is_new = |(name, _): &AddedField| !copied.iter().any(|(own, _)| own == name);
        answers.fields.retain(is_new);
        answers.fields.append(&mut copied);
    }

    /// Returns the copied fields.
    pub(crate) fn fields(&self) -> Ref<'_, [AddedField]> {
        Ref::map(self.answers.borrow(), |answers| &*answers.fields)
    }

    /// Adds the copied fields to those of a request for an upstream.
    pub(crate) fn copy_fields(&self, to: &mut Vec<(Cow<'static, str>, Vec<u8>)>) {
        for (name, value) in &self.answers.borrow().fields {
            let name = String::from_utf8_lossy(name).into_owned();
            to.push((name.into(), value.to_vec()));
        }
    }

    /// Returns the user whom an auth server has named.
    pub(crate) fn user(&self) -> Option<Vec<u8>> {
        let name = self.rules.user_field()?.as_bytes();
        let answers = self.answers.borrow();
        let mut fields = answers.fields.iter();
        let (_, value) = fields.find(|(own, _)| **own == *name)?;
        Some(value.to_vec())
    }

    /// Adds the cookies that auth servers set.
    pub(crate) fn add_cookies<'v>(&self, mut head: ResponseHead<'v>) -> ResponseHead<'v> {
        for cookie in &self.answers.borrow().cookies {
            head = head.header("Set-Cookie", cookie);
        }
        head
    }

    /// Adds the fields of a response of a site.
    pub(crate) fn add_fields<'v>(&self, head: ResponseHead<'v>, site: &Site) -> ResponseHead<'v> {
        let head = self.add_cookies(head);
        if self.has_let_in() && !site.fields.sets(PRIVATE.0) {
            head.header(PRIVATE.0, PRIVATE.1)
        } else {
            head
        }
    }
}
