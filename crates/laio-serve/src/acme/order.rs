//! From a name to its certificate: the account, the order, its challenges, the certificate (RFC 8555).
//!
//! Each step that cannot be repeated for nothing is on disk before the next one begins: the account, and the order with
//! the key that it is for. A server that was killed goes on with the order, whatever became of it meanwhile.

use super::certificate::{self, IssuedCertificate};
use super::directory_client::{DirectoryClient, complete};
use super::published::{Answer, Published};
use super::state_directory::{OrderLock, StateDirectory};
use crate::messages::print;
use crate::options::{Acme, AcmeChallenge, Limits};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, CertificateIdentifier, ChallengeStatus,
    ChallengeType, Error, ExternalAccountKey, Identifier, LetsEncrypt, NewAccount, NewOrder, Order,
    OrderStatus, Problem,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// An authority, and what a server needs to get certificates from it.
#[derive(Debug)]
pub(super) struct Authority {
    pub(super) options: Acme,
    pub(super) client: DirectoryClient,
}

/// Why a certificate could not be had, and the pause that the authority asks for.
#[derive(Debug)]
pub(super) struct OrderFailure {
    pub(super) text: String,
    pub(super) retry_after: Option<Duration>,
}

/// An order in progress, as it is on disk.
#[derive(Debug, Deserialize, Serialize)]
struct SavedOrder {
    url: String,
    /// The key of the certificate, in PEM.
    key: String,
}

/// What an order needs while it is in progress.
pub(super) struct OrderContext<'a> {
    pub(super) state: &'a StateDirectory,
    pub(super) published: &'a Published,
    pub(super) lock: &'a OrderLock,
}

/// An error of one step.
#[derive(Debug)]
enum StepError {
    /// Of the authority, or on the way to it.
    Acme(Error),
    /// Of this server.
    Own(String),
    /// The order that was on disk has led to the present certificate: the server was killed before it removed the order.
    PresentCertificate,
}

impl Authority {
    /// Gets a certificate for a name. `present`: the one that it has. Returns the key and the chain in PEM, and the
    /// certificate read from them.
    ///
    /// # Errors
    /// Says which step failed, and why.
    pub(super) fn obtain(
        &self,
        context: &OrderContext<'_>,
        name: &str,
        present: Option<&IssuedCertificate>,
    ) -> Result<(Vec<u8>, IssuedCertificate), OrderFailure> {
        context.state.remove_temporary(&self.folder(), context.lock);
        let mut result = self.try_obtain(context, name, present);
        for _ in 0..Limits::ACME_REPETITIONS {
            let again = match &result {
                Err(StepError::PresentCertificate) => self.forget_order(context.state, name),
                Err(StepError::Acme(Error::Api(problem))) if is(problem, "accountDoesNotExist") => {
                    print(
                        "the authority does not know the account (any more): creating another one",
                    );
                    let forgotten = context.state.remove(&self.account_file());
                    forgotten.and_then(|()| self.forget_order(context.state, name))
                }
                // The order is on disk, so this goes on with it.
                Err(StepError::Acme(Error::Api(problem))) if is(problem, "badNonce") => Ok(()),
                _ => break,
            };
            if let Err(error) = again {
                result = Err(error.into());
                break;
            }
            result = self.try_obtain(context, name, present);
        }
        let unpublished = context.published.set_answers(&[]);
        context.state.clear_challenges(context.lock);
        unpublished
            .map_err(StepError::Own)
            .and(result)
            .map_err(|error| OrderFailure {
                text: one_line(&error.to_text()),
                retry_after: self.client.retry_after(),
            })
    }

    /// Returns when the authority suggests to renew a certificate, and when to ask it again (RFC 9773).
    ///
    /// # Errors
    /// When the authority does not say.
    pub(super) fn renewal_window(
        &self,
        state: &StateDirectory,
        identifier: &CertificateIdentifier<'static>,
    ) -> Result<((std::time::SystemTime, std::time::SystemTime), Duration), String> {
        let account = self.saved_account(state).map_err(|error| error.to_text())?;
        let account = account.ok_or("there is no account")?;
        let (info, again) =
            complete(account.renewal_info(identifier)).map_err(|error| error.to_string())?;
        let window = info.suggested_window;
        Ok(((window.start.into(), window.end.into()), again))
    }

    /// Returns the name of the file of a certificate and its key.
    pub(super) fn certificate_file(&self, name: &str) -> String {
        format!("{}/{name}.pem", self.folder())
    }

    /// Removes the record of an order that has ended.
    ///
    /// # Errors
    /// Like [`StateDirectory::remove`].
    pub(super) fn forget_order(&self, state: &StateDirectory, name: &str) -> io::Result<()> {
        state.remove(&self.order_file(name))
    }

    /// Returns the name of the file that tells other servers not to order for a while.
    pub(super) fn failure_file(&self, name: &str) -> String {
        format!("{}/{name}.failed.json", self.folder())
    }

    pub(super) fn directory(&self) -> &str {
        let url = self.options.directory.as_ref();
        url.map_or(LetsEncrypt::Production.url(), |url| url.as_str())
    }

    /// Returns the folder of the files of this authority, named after its URL.
    fn folder(&self) -> String {
        let url = self.directory();
        let rest = url.strip_prefix("https://").unwrap_or(url);
        let plain = |it: char| {
            if it.is_ascii_alphanumeric() || matches!(it, '.' | '-') {
                it
            } else {
                '_'
            }
        };
        let name: String = rest.chars().map(plain).collect();
        // Not hidden, nor the name of a parent.
        name.trim_start_matches('.').to_owned()
    }

    fn account_file(&self) -> String {
        format!("{}/account.json", self.folder())
    }

    fn order_file(&self, name: &str) -> String {
        format!("{}/{name}.order.json", self.folder())
    }

    fn try_obtain(
        &self,
        context: &OrderContext<'_>,
        name: &str,
        present: Option<&IssuedCertificate>,
    ) -> Result<(Vec<u8>, IssuedCertificate), StepError> {
        let account = match self.saved_account(context.state)? {
            Some(account) => account,
            None => self.create_account(context.state)?,
        };
        let (mut order, key) = match self.saved_order(context.state, &account, name)? {
            Some(found) => found,
            None => {
                let replaces = present.and_then(IssuedCertificate::identifier);
                self.new_order(context.state, &account, name, replaces)?
            }
        };
        let deadline = Instant::now() + Limits::ACME_ORDER_TIME;
        if order.state().status == OrderStatus::Pending {
            self.answer_challenges(context, name, &mut order)?;
            let checked = |status| status != OrderStatus::Pending;
            self.wait(&mut order, deadline, "check the name", checked)?;
        }
        if order.state().status == OrderStatus::Invalid {
            context.state.remove(&self.order_file(name))?;
            return Err(self.why_invalid(&mut order));
        }
        if order.state().status == OrderStatus::Ready {
            complete(order.finalize_csr(&request(name, &key)?))?;
        }
        let issued = |status| status == OrderStatus::Valid || status == OrderStatus::Invalid;
        self.wait(&mut order, deadline, "issue the certificate", issued)?;
        let chain = complete(order.certificate());
        if order.state().status == OrderStatus::Invalid {
            context.state.remove(&self.order_file(name))?;
        }
        let chain = chain?.ok_or_else(|| own("the authority has issued no certificate"))?;
        let pem = certificate::with_key(&key.serialize_pem(), &chain).into_bytes();
        match IssuedCertificate::from_pem(&pem, &[name.to_owned()]) {
            Ok(certificate) if present.is_some_and(|it| it.key.cert == certificate.key.cert) => {
                Err(StepError::PresentCertificate)
            }
            Ok(certificate) => Ok((pem, certificate)),
            Err(why) => {
                context.state.remove(&self.order_file(name))?;
                Err(own(format!(
                    "the authority has issued a certificate of no use: {why}"
                )))
            }
        }
    }

    fn saved_account(&self, state: &StateDirectory) -> Result<Option<Account>, StepError> {
        let Some(contents) = state.read(&self.account_file())? else {
            return Ok(None);
        };
        let credentials: AccountCredentials =
            serde_json::from_slice(&contents).map_err(|error| {
                let file = state.path().join(self.account_file());
                own(format!(
                    "{} is malformed: {error}; remove it to create another account",
                    file.display()
                ))
            })?;
        let builder = Account::builder_with_http(Box::new(self.client.clone()));
        Ok(Some(complete(builder.from_credentials(credentials))?))
    }

    fn create_account(&self, state: &StateDirectory) -> Result<Account, StepError> {
        let contact = |address: &String| {
            if address.contains(':') {
                address.clone()
            } else {
                format!("mailto:{address}")
            }
        };
        let contacts: Vec<_> = self.options.contacts.iter().map(contact).collect();
        let contacts: Vec<_> = contacts.iter().map(String::as_str).collect();
        let external = self
            .options
            .external_account
            .as_deref()
            .map(read_external_account);
        let external = external.transpose()?;
        let new = NewAccount {
            contact: &contacts,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let builder = Account::builder_with_http(Box::new(self.client.clone()));
        let created = builder.create(&new, self.directory().to_owned(), external.as_ref());
        let (account, credentials) = complete(created)?;
        let contents = serde_json::to_vec(&credentials).map_err(|error| own(error.to_string()))?;
        state.write(&self.account_file(), &contents)?;
        Ok(account)
    }

    /// Returns the order that a server has begun before, and its key, if it can still lead to a certificate.
    fn saved_order(
        &self,
        state: &StateDirectory,
        account: &Account,
        name: &str,
    ) -> Result<Option<(Order, KeyPair)>, StepError> {
        let file = self.order_file(name);
        let Some(contents) = state.read(&file)? else {
            return Ok(None);
        };
        let saved = serde_json::from_slice::<SavedOrder>(&contents).ok();
        let saved = saved.and_then(|it| Some((it.url, KeyPair::from_pem(&it.key).ok()?)));
        if let Some((url, key)) = saved {
            match complete(account.order(url)) {
                Ok(mut order) => {
                    if order.state().status != OrderStatus::Invalid {
                        return Ok(Some((order, key)));
                    }
                }
                Err(Error::Api(problem))
                    if !is(&problem, "accountDoesNotExist") && !may_pass(&problem) => {}
                Err(error) => return Err(error.into()),
            }
        }
        state.remove(&file)?;
        Ok(None)
    }

    fn new_order(
        &self,
        state: &StateDirectory,
        account: &Account,
        name: &str,
        replaces: Option<CertificateIdentifier<'static>>,
    ) -> Result<(Order, KeyPair), StepError> {
        let identifiers = [Identifier::Dns(name.to_owned())];
        let plain = NewOrder::new(&identifiers);
        // Some authorities count a renewal differently if they know what it replaces. A certificate that another
        // order has replaced already, or that the authority does not find, is no reason to have none: any error may be
        // about it, but that of a limit of orders.
        let replacing = replaces.map(|old| NewOrder::new(&identifiers).replaces(old));
        let order = match replacing.map(|order| complete(account.new_order(&order))) {
            Some(Ok(order)) => order,
            Some(Err(Error::Api(problem))) if is(&problem, "rateLimited") => {
                return Err(Error::Api(problem).into());
            }
            _ => complete(account.new_order(&plain))?,
        };
        let key = KeyPair::generate().map_err(|error| own(error.to_string()))?;
        let saved = SavedOrder {
            url: order.url().to_owned(),
            key: key.serialize_pem(),
        };
        let contents = serde_json::to_vec(&saved).map_err(|error| own(error.to_string()))?;
        state.write(&self.order_file(name), &contents)?;
        Ok((order, key))
    }

    /// Publishes the answers to the challenges of an order, and asks the authority to check them.
    fn answer_challenges(
        &self,
        context: &OrderContext<'_>,
        name: &str,
        order: &mut Order,
    ) -> Result<(), StepError> {
        let kind = match self.options.challenge {
            AcmeChallenge::Http01 => ChallengeType::Http01,
            AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        let mut answers = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = complete(authorizations.next()) {
            let mut authorization = authorization?;
            if authorization.status != AuthorizationStatus::Pending {
                continue;
            }
            let challenge = authorization.challenge(kind.clone()).ok_or_else(|| {
                own(format!(
                    "the authority offers no {} challenge; try --acme-challenge",
                    self.options.challenge
                ))
            })?;
            answers.push(match self.options.challenge {
                AcmeChallenge::Http01 => Answer::Http {
                    token: checked_token(&challenge.token)?,
                    text: challenge.key_authorization().as_str().to_owned(),
                },
                AcmeChallenge::TlsAlpn01 => Answer::Tls {
                    name: name.to_owned(),
                    digest: challenge.key_authorization().digest().as_ref().to_vec(),
                },
            });
            if answers.len() > Limits::ACME_CHALLENGES {
                return Err(own("the authority asks for too many challenges"));
            }
        }
        context
            .published
            .set_answers(&answers)
            .map_err(StepError::Own)?;
        // The connection of the authority may arrive at another process with the same sockets.
        for (file, contents) in answers.iter().map(Answer::to_file) {
            context.state.share_challenge(&file, &contents)?;
        }
        if !context.state.is_alone() {
            self.pause(Limits::ACME_SHARE_TIME);
        }
        let mut authorizations = order.authorizations();
        while let Some(authorization) = complete(authorizations.next()) {
            let mut authorization = authorization?;
            if authorization.status == AuthorizationStatus::Pending
                && let Some(mut challenge) = authorization.challenge(kind.clone())
                // A killed server may have asked before.
                && challenge.status == ChallengeStatus::Pending
            {
                complete(challenge.set_ready())?;
            }
        }
        Ok(())
    }

    /// Waits until the status of an order is as wanted.
    fn wait(
        &self,
        order: &mut Order,
        deadline: Instant,
        what: &str,
        wanted: impl Fn(OrderStatus) -> bool,
    ) -> Result<(), StepError> {
        let mut pause = Limits::ACME_POLL_FIRST;
        while !wanted(order.state().status) {
            let asked = self.client.retry_after().unwrap_or_default();
            let time = pause.max(asked.min(Limits::ACME_POLL_MAX));
            if Instant::now() + time > deadline {
                let limit = Limits::ACME_ORDER_TIME.as_secs();
                return Err(own(format!(
                    "the authority did not {what} within {limit} seconds"
                )));
            }
            self.pause(time);
            pause = (pause * 2).min(Limits::ACME_POLL_MAX);
            complete(order.refresh())?;
        }
        Ok(())
    }

    /// Sleeps, and checks in short intervals whether the server has ended.
    fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.client.has_ended() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(Limits::ACME_POLL_FIRST));
        }
    }

    /// Returns the error of the challenge that failed.
    fn why_invalid(&self, order: &mut Order) -> StepError {
        let mut authorizations = order.authorizations();
        while let Some(Ok(mut authorization)) = complete(authorizations.next()) {
            let Ok(state) = complete(authorization.refresh()) else {
                continue;
            };
            let mut failed = state.challenges.iter().filter_map(|it| it.error.clone());
            if let Some(problem) = failed.next() {
                return Error::Api(problem).into();
            }
        }
        match order.state().error.clone() {
            Some(problem) => Error::Api(problem).into(),
            None => own("the authority has refused the order, and does not say why"),
        }
    }
}

/// Returns the certificate signing request for a name.
fn request(name: &str, key: &KeyPair) -> Result<Vec<u8>, StepError> {
    let make = || {
        let mut params = CertificateParams::new([name.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        params.serialize_request(key)
    };
    let request = make().map_err(|error| own(format!("cannot make the request: {error}")))?;
    Ok(request.der().to_vec())
}

/// Checks that a token has the characters of base64url (RFC 8555, section 8.3), because it becomes the name of a file.
fn checked_token(token: &str) -> Result<String, StepError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if (1..=128).contains(&token.len()) && token.bytes().all(fits) {
        Ok(token.to_owned())
    } else {
        Err(own("the authority has sent a malformed token"))
    }
}

/// Reads the key identifier and the key of an external account.
///
/// # Errors
/// Names the file, and the reason.
pub(super) fn read_external_account(path: &std::path::Path) -> io::Result<ExternalAccountKey> {
    let fail = |why: &dyn Display| {
        let text = format!("cannot use {} (--acme-eab): {why}", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(Limits::ACME_FILE).read_to_string(&mut text));
    read.map_err(|error| fail(&error))?;
    let words: Vec<_> = text.split_whitespace().collect();
    let [identifier, key] = words[..] else {
        return Err(fail(
            &"it must contain two words: the key identifier, and the key in base64url",
        ));
    };
    let key = BASE64_URL_SAFE_NO_PAD.decode(key.trim_end_matches('='));
    let key = key.map_err(|error| fail(&format_args!("the key is not base64url: {error}")))?;
    Ok(ExternalAccountKey::new(identifier.to_owned(), &key))
}

/// Whether a problem is of this kind (RFC 8555, section 6.7).
fn is(problem: &Problem, kind: &str) -> bool {
    let full = problem.r#type.as_deref();
    full.is_some_and(|full| full.strip_prefix("urn:ietf:params:acme:error:") == Some(kind))
}

/// Whether the same request may succeed later.
fn may_pass(problem: &Problem) -> bool {
    ["rateLimited", "serverInternal", "badNonce"]
        .iter()
        .any(|kind| is(problem, kind))
}

/// Returns the text of an error, which may be of the authority, without line breaks and without what is too long.
fn one_line(text: &str) -> String {
    let characters = text.chars().take(Limits::ACME_MESSAGE);
    let plain = |it: char| if it.is_control() { ' ' } else { it };
    characters.map(plain).collect()
}

fn own(text: impl Into<String>) -> StepError {
    StepError::Own(text.into())
}

impl StepError {
    fn to_text(&self) -> String {
        match self {
            StepError::Acme(Error::Api(problem)) => {
                let text = problem.to_string();
                format!(
                    "the authority says: {}",
                    text.trim_start_matches("API error: ")
                )
            }
            StepError::Acme(error) => error.to_string(),
            StepError::Own(text) => text.clone(),
            StepError::PresentCertificate => {
                "the authority issues the present one again".to_owned()
            }
        }
    }
}

impl From<Error> for StepError {
    fn from(error: Error) -> StepError {
        StepError::Acme(error)
    }
}

impl From<io::Error> for StepError {
    fn from(error: io::Error) -> StepError {
        StepError::Own(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn authority(url: &str) -> Authority {
        let ca = tempfile::NamedTempFile::new().unwrap();
        let made = certificate::self_signed(&["ca".to_owned()], std::time::SystemTime::now());
        fs::write(ca.path(), made.unwrap()).unwrap();
        let options = Acme {
            directory: Some(url.parse().unwrap()),
            ca: Some(ca.path().to_owned()),
            ..Acme::default()
        };
        Authority {
            client: DirectoryClient::new(&options, std::sync::Arc::default()).unwrap(),
            options,
        }
    }

    #[test]
    fn each_authority_has_a_folder() {
        let folder = |url: &str| authority(url).folder();
        assert_eq!(folder("https://localhost:14000/dir"), "localhost_14000_dir");
        assert_eq!(folder("https://a.b/x/../../y?z=1"), "a.b_x_.._.._y_z_1");
        assert_ne!(folder("https://a.b/x"), folder("https://a.b/y"));
    }

    #[test]
    fn tokens_are_no_paths() {
        assert!(checked_token("evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr_oA").is_ok());
        for bad in ["", "../x", "a/b", "a.b", "a b", &"a".repeat(129)] {
            assert!(checked_token(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn messages_of_an_authority_are_one_line() {
        assert_eq!(one_line("a\nlaio: b\x1b[1m"), "a laio: b [1m");
        let long = "ä".repeat(2 * Limits::ACME_MESSAGE);
        assert_eq!(one_line(&long).chars().count(), Limits::ACME_MESSAGE);
    }

    #[test]
    fn external_accounts() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for good in [
            "kid-1 zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG4",
            "kid\nAAAA==",
        ] {
            fs::write(file.path(), good).unwrap();
            assert!(read_external_account(file.path()).is_ok());
        }
        for (bad, word) in [
            ("", "two words"),
            ("kid", "two words"),
            ("kid a+b/", "base64url"),
        ] {
            fs::write(file.path(), bad).unwrap();
            let error = read_external_account(file.path())
                .err()
                .unwrap()
                .to_string();
            assert!(
                error.contains(word) && error.contains("--acme-eab"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_authority_that_cannot_be_reached_is_named() {
        let place = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(place.path()).unwrap();
        // Nothing listens at port 1.
        let authority = authority("https://127.0.0.1:1/dir");
        let context = OrderContext {
            state: &state,
            published: &Published::default(),
            lock: &state.try_lock().unwrap().unwrap(),
        };
        let failure = authority.obtain(&context, "example.org", None).unwrap_err();
        assert!(
            failure.text.contains("https://127.0.0.1:1/dir"),
            "{}",
            failure.text
        );
    }
}
