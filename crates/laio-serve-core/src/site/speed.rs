//! Limits on the rate of responses.

use laio_http::{Guard, Request};
use laio_serve_base::options::{Access, SpeedRule};
use std::io;

/// The limits of a site; the first one that fits counts.
pub struct Speeds(Vec<(Option<Guard>, Speed)>);

/// A limit on the rate of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// Bytes in each second.
    pub(crate) rate: u64,
    /// Bytes that are sent as fast as possible first.
    pub after: u64,
}

impl Speeds {
    /// # Errors
    /// When a glob is malformed.
    pub(crate) fn new(access: &Access) -> io::Result<Speeds> {
        let speed = |rule: &SpeedRule| {
            let guard = rule.glob.as_deref().map(|glob| Guard::new([glob]));
            let guard = guard.transpose();
            let guard = guard.map_err(|bad| io::Error::new(io::ErrorKind::InvalidInput, bad))?;
            let (rate, after) = (rule.rate, rule.after);
            Ok((guard, Speed { rate, after }))
        };
        let speeds = access.speeds.iter().map(speed);
        Ok(Speeds(speeds.collect::<io::Result<_>>()?))
    }

    /// Whether no response has a limit.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the limit for the response to a request, which was perhaps rewritten. Either path may fit, so that no
    /// rewrite leads around a limit.
    pub fn of(&self, request: &Request<'_>, before: Option<&Request<'_>>) -> Option<Speed> {
        let mut speeds = self.0.iter();
        let found = speeds.find(|(guard, _)| {
            let fits = |request: &Request<'_>, guard: &Guard| {
                let path = request.path.as_ref();
                path.is_ok_and(|path| guard.guards_upstream(path))
            };
            guard.as_ref().is_none_or(|guard| {
                fits(request, guard) || before.is_some_and(|before| fits(before, guard))
            })
        });
        found.map(|&(_, speed)| speed)
    }
}
