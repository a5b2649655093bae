//! The steps that lead to a response, for `explain`. The code that takes a decision notes it; a worker that
//! explains nothing only checks a thread-local flag, and only outside the short way of a cached file.

use std::cell::{Cell, RefCell};

/// One decision on the way to a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What decided: `listen`, `site`, `hsts`, `cors`, `access`, `path`, `stage`, `rewrite`, `redirect`, `try`, `file`, `form`, `response`, `fields`, `upstream`, `change`.
    pub kind: &'static str,
    /// The decision and its reason.
    pub text: String,
}

/// What the calling thread explains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracing {
    Off,
    /// A request that arrives in the clear.
    Clear,
    /// A request that is answered as if it had arrived encrypted.
    Encrypted,
}

thread_local! {
    static TRACING: Cell<Tracing> = const { Cell::new(Tracing::Off) };
    static STEPS: RefCell<Vec<Step>> = const { RefCell::new(Vec::new()) };
}

/// The kind of the steps that name a stage.
const STAGE: &str = "stage";

/// The most steps that are kept: a site may have many candidates and index files.
const STEPS_MAX: usize = 1000;

/// Notes a decision, if the calling thread explains a request.
#[inline]
pub(crate) fn note(kind: &'static str, text: impl FnOnce() -> String) {
    if is_on() {
        let text = text();
        STEPS.with_borrow_mut(|steps| {
            if steps.len() < STEPS_MAX {
                steps.push(Step { kind, text });
            }
        });
    }
}

/// Notes that the request has come to a stage. If the stage decides nothing, the next one replaces its step.
pub(crate) fn note_stage(text: &str) {
    if is_on() {
        STEPS.with_borrow_mut(|steps| {
            steps.pop_if(|step| step.kind == STAGE);
        });
        note(STAGE, || text.to_owned());
    }
}

/// Whether the calling thread explains a request: then no upstream is asked.
#[inline]
pub(crate) fn is_on() -> bool {
    TRACING.get() != Tracing::Off
}

/// Whether a request in the clear is answered as if it had arrived encrypted.
#[inline]
pub(crate) fn is_secure() -> bool {
    TRACING.get() == Tracing::Encrypted
}

/// Runs `work` and returns the decisions of its requests.
pub(crate) fn traced<T>(secure: bool, work: impl FnOnce() -> T) -> (T, Vec<Step>) {
    TRACING.set(if secure {
        Tracing::Encrypted
    } else {
        Tracing::Clear
    });
    STEPS.take();
    let result = work();
    TRACING.set(Tracing::Off);
    (result, STEPS.take())
}

/// Returns a name below the root as text.
pub(crate) fn shown(name: &[u8]) -> String {
    match name {
        b"" => "the root".to_owned(),
        name => String::from_utf8_lossy(name).escape_debug().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_noted_only_while_a_request_is_explained() {
        note("site", || panic!("nothing is explained"));
        let (secure, steps) = traced(true, || {
            note("site", || "one".to_owned());
            is_secure()
        });
        assert!(secure && !is_on());
        let one = Step {
            kind: "site",
            text: "one".to_owned(),
        };
        assert_eq!(steps, [one]);
        let (_, many) = traced(false, || {
            for _ in 0..2 * STEPS_MAX {
                note("file", String::new);
            }
        });
        assert_eq!(many.len(), STEPS_MAX);
    }
}
