//! The statistics of the proactor, for the recorder that the program has installed for the crate `metrics`.

use crate::proactor;
use laio::ProactorStats;

/// Passes the statistics of this crate's proactor to the recorder of the crate `metrics`, for example one
/// that answers Prometheus. Call it before each scrape, or every few seconds: operations themselves record
/// nothing, so that they cost the same with the feature `metrics` as without.
///
/// [`laio::ProactorStats::metrics`] has the names: `laio_inline_total` and others.
///
/// # Errors
/// As [`proactor`].
pub fn publish() -> std::io::Result<()> {
    record(&proactor()?.stats());
    Ok(())
}

fn record(stats: &ProactorStats) {
    for metric in stats.metrics() {
        if metric.is_gauge {
            metrics::describe_gauge!(metric.name, metric.help);
            metrics::gauge!(metric.name).set(metric.value as f64);
        } else {
            metrics::describe_counter!(metric.name, metric.help);
            metrics::counter!(metric.name).absolute(metric.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata};
    use metrics::{SharedString, Unit};
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    /// A recorder that keeps the last value of each name.
    #[derive(Clone, Default)]
    struct Recorder(Arc<Mutex<BTreeMap<String, f64>>>);

    /// One name of it.
    struct Value(String, Recorder);

    impl Value {
        fn keep(&self, value: f64) {
            self.1.0.lock().unwrap().insert(self.0.clone(), value);
        }
    }

    impl CounterFn for Value {
        fn increment(&self, _: u64) {}
        fn absolute(&self, value: u64) {
            self.keep(value as f64);
        }
    }

    impl GaugeFn for Value {
        fn increment(&self, _: f64) {}
        fn decrement(&self, _: f64) {}
        fn set(&self, value: f64) {
            self.keep(value);
        }
    }

    impl metrics::Recorder for Recorder {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(Arc::new(Value(key.name().to_owned(), self.clone())))
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(Arc::new(Value(key.name().to_owned(), self.clone())))
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn the_recorder_gets_every_value() {
        let recorder = Recorder::default();
        let mut stats = ProactorStats::default();
        stats.inline = 7;
        stats.hung_mounts = 2;
        metrics::with_local_recorder(&recorder, || record(&stats));
        let found = recorder.0.lock().unwrap().clone();
        assert_eq!(found.len(), stats.metrics().len());
        assert_eq!(found["laio_inline_total"].to_bits(), 7f64.to_bits());
        assert_eq!(found["laio_hung_mounts"].to_bits(), 2f64.to_bits());
    }

    #[test]
    fn the_proactor_is_published() {
        let recorder = Recorder::default();
        metrics::with_local_recorder(&recorder, || publish().unwrap());
        assert!(
            recorder
                .0
                .lock()
                .unwrap()
                .contains_key("laio_background_total")
        );
    }
}
