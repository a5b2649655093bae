//! The loops that schedule the requests, and end the load.

use super::client::Client;
use super::report::LoadResult;
use super::tally::{Kind, Tally, record};
use super::{IN_FLIGHT_MAX, Pace, Plan, Settings};
use crate::content::Random;
use crate::stop::Stop;
use laio_rt::{JoinHandle, spawn, time};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// State that all tasks share.
struct Shared {
    settings: Settings,
    plan: Plan,
    tally: RefCell<Tally>,
    random: RefCell<Random>,
    /// Which targets have been requested.
    asked: RefCell<Vec<bool>>,
    /// The time at which the warm-up ends.
    warm: Instant,
    /// The number of the next request.
    next: Cell<u64>,
    /// The number after the last request.
    last: u64,
    until: Option<Instant>,
    over: Cell<bool>,
    /// Idle clients of the open loop.
    idle: RefCell<Vec<Client>>,
    stop: Stop,
}

/// The interval of progress messages and of measuring the loop's own delay.
const TICK: Duration = Duration::from_millis(10);

pub(super) async fn drive(
    settings: &Settings,
    plan: Plan,
    stop: &Stop,
    progress: &mut dyn FnMut(&str),
) -> LoadResult {
    // Only these end with the trace.
    let ordered =
        matches!(settings.pace, Pace::Clients(_) | Pace::Times(_)) && plan.order.len() > 1;
    let once = if settings.time.is_some() && !ordered {
        u64::MAX
    } else {
        plan.order.len() as u64
    };
    let last = settings.fetches.unwrap_or(once);
    let asked = vec![false; plan.targets.len()];
    let shared = Rc::new(Shared {
        settings: settings.clone(),
        plan,
        tally: RefCell::new(Tally::new()),
        random: RefCell::new(Random::new(settings.seed)),
        asked: RefCell::new(asked),
        warm: Instant::now() + settings.warm_up,
        next: Cell::new(0),
        last,
        until: settings.time.map(|time| Instant::now() + time),
        over: Cell::new(false),
        idle: RefCell::new(Vec::new()),
        stop: stop.clone(),
    });
    let load: Vec<JoinHandle<()>> = match settings.pace {
        Pace::Clients(clients) | Pace::Random(clients) => (0..clients.max(1))
            .map(|_| spawn(closed(shared.clone())))
            .collect(),
        Pace::Rate(_) | Pace::Times(_) => vec![spawn(open(shared.clone()))],
    };
    let watcher = spawn({
        let shared = shared.clone();
        async move {
            for task in load {
                // The panic hook has reported a task that panicked.
                let _ = task.await;
            }
            while shared.tally.borrow().in_flight > 0 && !shared.stop.is_asked() {
                time::sleep(TICK).await;
            }
            shared.over.set(true);
        }
    });
    watch(&shared, progress).await;
    watcher.detach();
    let tally = shared.tally.borrow();
    LoadResult::from_tally(settings, &tally)
}

impl Shared {
    /// Returns the number of the next request, if there is one.
    fn take(&self) -> Option<u64> {
        let number = self.next.get();
        let time_is_up = || self.until.is_some_and(|until| Instant::now() >= until);
        if number >= self.last || self.stop.is_asked() || time_is_up() {
            return None;
        }
        self.next.set(number + 1);
        Some(number)
    }

    async fn fetch(&self, client: &mut Client, number: u64, intended: Option<Instant>) {
        self.tally.borrow_mut().begin();
        let index = {
            let mut random = self.random.borrow_mut();
            self.plan.index(self.settings.pace, number, &mut random)
        };
        let again = std::mem::replace(&mut self.asked.borrow_mut()[index], true);
        let kind = match intended.unwrap_or_else(Instant::now) {
            begin if begin < self.warm => Kind::WarmUp,
            _ if again => Kind::Again,
            _ => Kind::First,
        };
        let target = &self.plan.targets[index];
        let result = client.fetch(&self.settings, target).await;
        let mut tally = self.tally.borrow_mut();
        tally.reopened += std::mem::take(&mut client.reopened);
        tally.end(result, intended, kind);
    }
}

/// A client of a closed loop.
async fn closed(shared: Rc<Shared>) {
    let mut client = Client::new();
    while let Some(number) = shared.take() {
        shared.fetch(&mut client, number, None).await;
    }
}

/// Starts requests at their scheduled times.
async fn open(shared: Rc<Shared>) {
    let began = Instant::now();
    while let Some(number) = shared.take() {
        let after = match shared.settings.pace {
            Pace::Times(speed) => {
                let index = (number % shared.plan.times.len() as u64) as usize;
                shared.plan.times[index].unwrap_or_default().as_secs_f64() / speed
            }
            Pace::Rate(rate) => number as f64 / rate,
            Pace::Clients(_) | Pace::Random(_) => 0.0,
        };
        let Ok(after) = Duration::try_from_secs_f64(after) else {
            return;
        };
        let intended = began + after;
        if shared.until.is_some_and(|until| intended >= until) {
            return;
        }
        if intended > Instant::now() {
            time::sleep_until(intended).await;
        } else {
            // The request is late already; requests in flight must not be delayed for it.
            laio_rt::yield_now().await;
        }
        record(&mut shared.tally.borrow_mut().lag, intended.elapsed());
        if shared.tally.borrow().in_flight >= IN_FLIGHT_MAX {
            shared
                .tally
                .borrow_mut()
                .fail("not begun: too many in flight".into());
            continue;
        }
        let shared = shared.clone();
        spawn(async move {
            let idle = shared.idle.borrow_mut().pop();
            let mut client = idle.unwrap_or_else(Client::new);
            shared.fetch(&mut client, number, Some(intended)).await;
            shared.idle.borrow_mut().push(client);
        })
        .detach();
    }
}

/// Prints the progress, and measures how late this thread is.
async fn watch(shared: &Shared, progress: &mut dyn FnMut(&str)) {
    let open = matches!(shared.settings.pace, Pace::Rate(_) | Pace::Times(_));
    let (mut shown, mut before) = (Instant::now(), 0);
    while !shared.over.get() && !shared.stop.is_asked() {
        let due = Instant::now() + TICK;
        time::sleep_until(due).await;
        let mut tally = shared.tally.borrow_mut();
        if !open {
            record(&mut tally.lag, due.elapsed());
        }
        let since = shown.elapsed().as_secs_f64();
        if since >= 1.0 {
            let rate = (tally.requests - before) as f64 / since;
            let (requests, errors) = (tally.requests, tally.errors());
            let in_flight = tally.in_flight;
            progress(&format!(
                "{requests} requests, {rate:.0}/s, {in_flight} in flight, {errors} errors"
            ));
            (shown, before) = (Instant::now(), requests);
        }
    }
}
