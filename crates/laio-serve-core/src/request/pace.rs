//! Sends a response no faster than a limit allows.

use crate::site::speed::Speed;
use laio_rt::time::sleep_until;
use std::time::{Duration, Instant};

/// The progress of a response, compared with its limit.
#[derive(Debug)]
pub struct Pace {
    /// None does not limit.
    speed: Option<Speed>,
    /// When the limited part began.
    began: Option<Instant>,
    /// Bytes sent of the unlimited part, and of the limited one.
    sent: [u64; 2],
}

/// Pieces that are sent in a second.
const PIECES: u64 = 4;

impl Pace {
    pub fn new(speed: Option<Speed>) -> Pace {
        Pace {
            speed,
            began: None,
            sent: [0; 2],
        }
    }

    /// Whether there is a limit.
    pub fn limits(&self) -> bool {
        self.speed.is_some()
    }

    /// Returns the length of the next piece of `left` bytes.
    pub fn piece(&self, left: u64) -> u64 {
        match self.speed {
            None => left,
            Some(speed) if self.sent[0] < speed.after => left.min(speed.after - self.sent[0]),
            Some(speed) => left.min((speed.rate / PIECES).max(1)),
        }
    }

    /// Counts sent bytes.
    pub fn add(&mut self, count: u64) {
        let Some(speed) = self.speed else {
            return;
        };
        let unlimited = count.min(speed.after - self.sent[0]);
        self.sent[0] += unlimited;
        self.sent[1] += count - unlimited;
    }

    /// Waits until more may be sent.
    pub async fn wait(&mut self) {
        let Some(speed) = self.speed.filter(|_| self.sent[1] > 0) else {
            return;
        };
        let micros = u128::from(self.sent[1]) * 1_000_000 / u128::from(speed.rate.max(1));
        let micros = u64::try_from(micros).unwrap_or(u64::MAX);
        let began = *self.began.get_or_insert_with(Instant::now);
        if let Some(due) = began.checked_add(Duration::from_micros(micros))
            && due > Instant::now()
        {
            sleep_until(due).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_fill_the_unlimited_part_first() {
        let speed = |rate, after| Pace::new(Some(Speed { rate, after }));
        let mut pace = speed(4000, 1500);
        assert_eq!(pace.piece(9999), 1500);
        assert_eq!(pace.piece(10), 10);
        pace.add(1000);
        assert_eq!(pace.piece(9999), 500);
        pace.add(700);
        assert_eq!(
            (pace.sent, pace.piece(9999), pace.piece(3)),
            ([1500, 200], 1000, 3)
        );
        assert_eq!(speed(1, 0).piece(9), 1);
        let mut none = Pace::new(None);
        none.add(5);
        assert_eq!((none.piece(7), none.limits()), (7, false));
    }
}
