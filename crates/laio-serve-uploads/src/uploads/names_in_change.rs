//! Names that are being changed. Checking the conditions of a change and making it is one step for other changes of
//! the same name, in all workers.

use super::problem::Problem;
use laio_http::Status;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The names that are being changed at the moment, in all workers of a server.
#[derive(Default)]
pub(crate) struct NamesInChange(Mutex<HashSet<Key>>);

/// A root (its device and inode), and a name below it.
type Key = ((u64, u64), Box<[u8]>);

/// How often a change that waits for another one looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

impl NamesInChange {
    /// Waits until no other request changes this name.
    pub(super) async fn enter(
        self: &Arc<Self>,
        root: (u64, u64),
        name: &[u8],
        limit: Duration,
    ) -> Result<NameInChange, Problem> {
        let key: Key = (root, name.into());
        let deadline = Instant::now() + limit;
        while !self.names().insert(key.clone()) {
            if Instant::now() >= deadline {
                return Err(Problem::new(
                    Status::SERVICE_UNAVAILABLE,
                    "Another request is changing this file; try again.",
                ));
            }
            laio_rt::time::sleep(LOOK_AGAIN).await;
        }
        Ok(NameInChange {
            names: self.clone(),
            key,
        })
    }

    fn names(&self) -> std::sync::MutexGuard<'_, HashSet<Key>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name that one request is changing, until dropped.
pub(super) struct NameInChange {
    names: Arc<NamesInChange>,
    key: Key,
}

impl Drop for NameInChange {
    fn drop(&mut self) {
        self.names.names().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_change_of_a_name_at_a_time() {
        let runtime = laio_rt::Runtime::new(laio::Options::new()).unwrap();
        runtime.block_on(async {
            let names = Arc::<NamesInChange>::default();
            let enter = |name: &'static [u8]| names.enter((1, 2), name, Duration::from_millis(5));
            let first = enter(b"a").await.unwrap();
            assert!(enter(b"b").await.is_ok());
            assert!(enter(b"a").await.is_err());
            drop(first);
            assert!(enter(b"a").await.is_ok());
            assert!(names.names().is_empty());
        });
    }
}
