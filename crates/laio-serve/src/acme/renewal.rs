//! The thread that gets certificates and renews them. A thread of its own, because its calls block.

use super::certificate::{self, IssuedCertificate};
use super::order::{Authority, OrderContext};
use super::published::{Answer, Published};
use super::schedule;
use super::state_directory::{FileStamp, StateDirectory};
use crate::messages::print;
use crate::observe::Observer;
use crate::options::Limits;
use laio_http::HttpDate;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

/// The certificates of a server.
pub(super) struct Renewal {
    pub(super) held: Vec<HeldCertificate>,
    pub(super) state: StateDirectory,
    /// None if there are only local names.
    pub(super) authority: Option<Authority>,
    pub(super) published: Arc<Published>,
    pub(super) observer: Observer,
    /// The version of the shared answers to challenges.
    pub(super) challenges: Option<FileStamp>,
}

/// A certificate, and when the next one is due.
pub(super) struct HeldCertificate {
    /// One name of which an authority is asked, or all local names.
    pub(super) names: Vec<String>,
    /// The server signs it itself.
    pub(super) local: bool,
    certificate: Option<IssuedCertificate>,
    /// The version of the file of the certificate.
    stamp: Option<FileStamp>,
    /// Chosen for each certificate: where in the possible time it is renewed.
    fraction: f64,
    /// The times that the authority suggests, and when to ask it again.
    window: Option<(SystemTime, SystemTime)>,
    ask_window: Option<Instant>,
    failures: u32,
    /// No other try before.
    retry: Option<Instant>,
}

impl HeldCertificate {
    pub(super) fn new(names: Vec<String>, local: bool) -> HeldCertificate {
        HeldCertificate {
            names,
            local,
            certificate: None,
            stamp: None,
            fraction: 0.0,
            window: None,
            ask_window: None,
            failures: 0,
            retry: None,
        }
    }

    pub(super) fn certificate(&self) -> Option<&IssuedCertificate> {
        self.certificate.as_ref()
    }

    /// Returns the names as text.
    pub(super) fn name(&self) -> String {
        self.names.join(", ")
    }

    fn renewal_time(&self) -> Option<SystemTime> {
        let certificate = self.certificate.as_ref()?;
        Some(schedule::renewal(
            certificate.validity,
            self.window,
            self.fraction,
        ))
    }

    fn is_due(&self, now: SystemTime) -> bool {
        self.renewal_time().is_none_or(|due| due <= now)
    }
}

impl Renewal {
    /// Reads the certificates that are on disk, and makes those of local names.
    pub(super) fn prepare(&mut self) {
        for index in 0..self.held.len() {
            self.look(index);
            if self.held[index].local && self.held[index].is_due(SystemTime::now()) {
                self.sign(index);
            }
        }
    }

    /// Gets and renews certificates until the sender of `wake` is dropped. A message means: try again now.
    pub(super) fn run(&mut self, wake: &Receiver<()>) {
        loop {
            match wake.recv_timeout(Limits::ACME_LOOK_INTERVAL) {
                Ok(()) => self.forget_failures(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self
                .authority
                .as_ref()
                .is_some_and(|it| it.client.has_ended())
            {
                return;
            }
            self.take_shared_challenges();
            for index in 0..self.held.len() {
                self.look(index);
                let held = &self.held[index];
                let waits = held.retry.is_some_and(|at| Instant::now() < at);
                if waits || !held.is_due(SystemTime::now()) {
                    continue;
                }
                if held.local {
                    self.sign(index)
                } else {
                    self.order(index)
                }
            }
            // One at a time, because an authority that does not answer would delay the orders of others.
            let asks =
                |held: &HeldCertificate| held.ask_window.is_some_and(|at| at <= Instant::now());
            if let Some(index) = self.held.iter().position(asks) {
                self.ask_window(index);
            }
        }
    }

    /// Answers the challenges of orders of other servers.
    fn take_shared_challenges(&mut self) {
        let stamp = self.state.challenges_stamp();
        if stamp == self.challenges {
            return;
        }
        // Another change may follow in the same tick of the file system's clock.
        self.challenges = stamp.filter(|stamp| stamp.is_older_than(Limits::ACME_LOOK_INTERVAL));
        let shared = self.state.shared_challenges().into_iter();
        let answers: Vec<_> = shared
            .filter_map(|(name, contents)| Answer::from_file(&name, contents))
            .collect();
        if let Err(error) = self.published.set_answers(&answers) {
            print(format_args!("cannot answer a challenge: {error}"));
        }
    }

    /// Uses the certificate on disk if it is another one than before: at the start, or when another server has got it.
    fn look(&mut self, index: usize) {
        let held = &self.held[index];
        let file = self.file(held);
        let stamp = self.state.stamp(&file);
        if stamp == held.stamp {
            return;
        }
        self.held[index].stamp = stamp;
        let contents = match self.state.read(&file) {
            Ok(Some(contents)) => contents,
            Ok(None) => return,
            Err(error) => return print(error),
        };
        match IssuedCertificate::from_pem(&contents, &self.held[index].names) {
            Ok(certificate) if certificate.validity.until <= SystemTime::now() => {}
            Ok(certificate) => self.take(index, certificate),
            Err(why) => print(format_args!(
                "cannot use {}: {why}",
                self.state.path().join(file).display()
            )),
        }
    }

    /// Uses a certificate from now on.
    fn take(&mut self, index: usize, certificate: IssuedCertificate) {
        let held = &mut self.held[index];
        for name in &held.names {
            let key = certificate.key.clone();
            self.published.set_certificate(name, key);
            let until = certificate.validity.until;
            self.observer.certificate_expires(name, until);
        }
        if index == 0 {
            self.published
                .set_other_certificate(certificate.key.clone());
        }
        held.certificate = Some(certificate);
        held.fraction = schedule::random_fraction();
        (held.window, held.failures, held.retry) = (None, 0, None);
        held.ask_window = (!held.local).then(Instant::now);
    }

    /// Asks the authority when to renew.
    fn ask_window(&mut self, index: usize) {
        let held = &mut self.held[index];
        let identifier = held.certificate.as_ref().and_then(|it| it.identifier());
        let Some((authority, identifier)) = self.authority.as_ref().zip(identifier) else {
            held.ask_window = None;
            return;
        };
        let pause = match authority.renewal_window(&self.state, &identifier) {
            Ok((window, again)) => {
                held.window = Some(window);
                again
            }
            // The lifetime decides as long as the authority suggests nothing.
            Err(_) => Limits::ACME_WINDOW_PAUSE.1,
        };
        let (least, most) = Limits::ACME_WINDOW_PAUSE;
        held.ask_window = Some(Instant::now() + pause.clamp(least, most));
    }

    /// Makes a certificate for a local name.
    fn sign(&mut self, index: usize) {
        let names = &self.held[index].names;
        let file = self.file(&self.held[index]);
        let made = certificate::self_signed(names, SystemTime::now())
            .map_err(|error| error.to_string())
            .and_then(|pem| Ok((IssuedCertificate::from_pem(pem.as_bytes(), names)?, pem)));
        let (certificate, pem) = match made {
            Ok(made) => made,
            Err(why) => return self.failed(index, &why, None),
        };
        self.take(index, certificate);
        // Kept, so that what a browser or a program trusts does not change with each start.
        match self.state.write(&file, pem.as_bytes()) {
            Ok(()) => self.held[index].stamp = self.state.stamp(&file),
            Err(error) => print(format_args!(
                "the certificate changes at the next start: {error}"
            )),
        }
    }

    /// Gets a certificate from the authority, unless another server does.
    fn order(&mut self, index: usize) {
        let Some(authority) = &self.authority else {
            return;
        };
        let lock = match self.state.try_lock() {
            Ok(Some(lock)) => lock,
            // The certificate is looked for on disk again soon.
            Ok(None) => return,
            Err(error) => return self.failed(index, &error.to_string(), None),
        };
        if let Some(failure) = self.shared_failure(index) {
            let held = &mut self.held[index];
            let left = failure
                .until
                .saturating_sub(unix_seconds(SystemTime::now()));
            let left = Duration::from_secs(left).min(Limits::ACME_RETRY_AFTER_MAX);
            held.failures = failure.failures;
            held.retry = Some(Instant::now() + left);
            return;
        }
        let name = self.held[index].name();
        let file = authority.certificate_file(&name);
        // Another server may have got it just before.
        if self.state.stamp(&file) != self.held[index].stamp {
            return self.look(index);
        }
        print(format_args!(
            "getting a certificate for {name} from {}",
            authority.directory()
        ));
        let replaced = self.held[index].certificate.as_ref();
        let context = OrderContext {
            state: &self.state,
            published: &self.published,
            lock: &lock,
        };
        let first_pause = authority.options.retry;
        let obtained = authority.obtain(&context, &name, replaced);
        self.challenges = self.state.challenges_stamp();
        match obtained {
            Ok((pem, certificate)) => {
                let written = self.state.write(&file, &pem);
                let recorded = written.and_then(|()| authority.forget_order(&self.state, &name));
                let _ = self.state.remove(&authority.failure_file(&name));
                self.held[index].stamp = self.state.stamp(&file);
                let validity = certificate.validity;
                let until = validity.until;
                let lifetime = until.duration_since(validity.from).unwrap_or_default();
                self.take(index, certificate);
                // A wrong clock, or a suggestion of the authority, may make the new one due at once.
                let pause = first_pause.max(lifetime / Limits::ACME_ORDERS_OF_LIFETIME);
                self.held[index].retry = Some(Instant::now() + pause);
                self.observer.certificate_ordered(&name);
                print(format_args!(
                    "got a certificate for {name}, valid until {}",
                    date(until)
                ));
                if let Err(error) = recorded {
                    print(format_args!(
                        "the certificate is lost at the next start: {error}"
                    ));
                }
            }
            Err(_) if authority.client.has_ended() => {}
            Err(failure) => {
                self.failed(index, &failure.text, failure.retry_after);
                self.share_failure(index);
            }
        }
    }

    /// Returns the last failed order of a name, if another server has made it and the next one is not due. A server
    /// that is alone orders at its start whatever was before.
    fn shared_failure(&self, index: usize) -> Option<SharedFailure> {
        let file = self
            .authority
            .as_ref()?
            .failure_file(&self.held[index].name());
        let contents = self.state.read(&file).ok()??;
        let failure: SharedFailure = serde_json::from_slice(&contents).ok()?;
        let waits = failure.until > unix_seconds(SystemTime::now());
        (waits && !self.state.is_alone()).then_some(failure)
    }

    /// Tells other servers of a failed order, because authorities limit how many fail for a name.
    fn share_failure(&self, index: usize) {
        let held = &self.held[index];
        let (Some(authority), Some(retry)) = (&self.authority, held.retry) else {
            return;
        };
        let pause = retry.saturating_duration_since(Instant::now());
        let failure = SharedFailure {
            failures: held.failures,
            until: unix_seconds(SystemTime::now() + pause),
        };
        if !self.state.is_alone()
            && let Ok(contents) = serde_json::to_vec(&failure)
            && let Err(error) = self
                .state
                .write(&authority.failure_file(&held.name()), &contents)
        {
            print(error);
        }
    }

    /// Makes all orders due that have failed.
    fn forget_failures(&mut self) {
        for held in &mut self.held {
            held.retry = None;
            if let Some(authority) = &self.authority {
                // Without the file other servers know of no failure.
                let _ = self.state.remove(&authority.failure_file(&held.name()));
            }
        }
    }

    fn failed(&mut self, index: usize, why: &str, retry_after: Option<Duration>) {
        let first = self
            .authority
            .as_ref()
            .map_or(Limits::ACME_LOOK_INTERVAL, |it| it.options.retry);
        let held = &mut self.held[index];
        held.failures = held.failures.saturating_add(1);
        let pause = schedule::pause(held.failures, first, retry_after);
        held.retry = Some(Instant::now() + pause);
        held.names
            .iter()
            .for_each(|name| self.observer.certificate_failed(name));
        let present = match &held.certificate {
            Some(certificate) => format!(
                "; the present one is valid until {}",
                date(certificate.validity.until)
            ),
            None => String::new(),
        };
        print(format_args!(
            "cannot get a certificate for {}: {why}; trying again in {} seconds{present}",
            held.name(),
            pause.as_secs()
        ));
    }

    /// Returns the name of the file with the certificate of a name.
    fn file(&self, held: &HeldCertificate) -> String {
        match &self.authority {
            Some(authority) if !held.local => authority.certificate_file(&held.name()),
            _ => {
                // Servers with other local names have another file, as far as names of files are long enough.
                let mut names = held.names.join("+");
                names.truncate(200);
                format!("self-signed/{names}.pem")
            }
        }
    }
}

/// A failed order, as it is on disk.
#[derive(Debug, Deserialize, Serialize)]
struct SharedFailure {
    failures: u32,
    /// No other order before, in seconds since 1970.
    until: u64,
}

fn unix_seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Returns a time as text.
pub(super) fn date(time: SystemTime) -> String {
    let date = i64::try_from(unix_seconds(time))
        .ok()
        .and_then(HttpDate::from_unix);
    date.map_or_else(|| "a far day".to_owned(), |date| date.to_string())
}
