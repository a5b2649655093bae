//! Rounds of short blocks, in which the participants alternate.

use laio::Errno;
use laio::measure::{Subject, Via};
use std::time::{Duration, Instant};

/// The number of calls in a block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Blocks {
    /// As many calls as take about a millisecond, rounded to this multiple.
    Timed { multiple_of: usize },
    /// This many calls: for rows whose time depends on the number in flight.
    Fixed { plain: usize, variant: usize },
}

/// Nanoseconds per call, for each round.
pub(super) type Series = Vec<f64>;

/// The duration of a block: long enough that reading the clock does not matter, short enough that most
/// interruptions fall between blocks.
const BLOCK: Duration = Duration::from_millis(1);
/// The minimum number of rounds of a series.
const ROUNDS_MIN: usize = 5;

/// Runs rounds until the time is over, and returns one series for each participant. `before` prepares each
/// block.
pub(super) fn run(
    subject: &mut dyn Subject,
    participants: &mut [Via<'_>],
    blocks: &Blocks,
    time: Duration,
    before: &mut dyn FnMut(),
) -> Result<Vec<Series>, Errno> {
    let start = Instant::now();
    let mut counts = Vec::new();
    for (index, via) in participants.iter_mut().enumerate() {
        counts.push(match *blocks {
            Blocks::Fixed { plain, .. } if index == 0 => plain,
            Blocks::Fixed { variant, .. } => variant,
            Blocks::Timed { multiple_of } => calibrate(subject, via, multiple_of)?,
        });
    }
    let mut series = vec![Series::new(); participants.len()];
    let mut round = 0;
    while round < ROUNDS_MIN || start.elapsed() < time {
        // The order rotates, so that no participant gains from its position.
        for turn in 0..participants.len() {
            let index = (turn + round) % participants.len();
            let (via, count) = (&mut participants[index], counts[index]);
            before();
            if let Blocks::Timed { multiple_of } = *blocks {
                // The previous participant's block has displaced the contents of the processor's caches.
                subject.run(via, multiple_of.max(8))?;
            }
            let nanoseconds = subject.run(via, count)?;
            series[index].push(nanoseconds as f64 / count as f64);
        }
        round += 1;
    }
    Ok(series)
}

/// Returns how many calls take about as long as a block. Also warms the caches.
fn calibrate(
    subject: &mut dyn Subject,
    via: &mut Via<'_>,
    multiple_of: usize,
) -> Result<usize, Errno> {
    let mut count = multiple_of;
    loop {
        let nanoseconds = subject.run(via, count)?.max(1);
        let block = BLOCK.as_nanos() as u64;
        if nanoseconds >= block / 4 {
            let wanted = (count as u64 * block).div_ceil(nanoseconds) as usize;
            return Ok(wanted.next_multiple_of(multiple_of));
        }
        count *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every call takes a microsecond; the third participant's take three.
    struct Fake(Vec<usize>);

    impl Subject for Fake {
        fn run(&mut self, via: &mut Via<'_>, count: usize) -> Result<u64, Errno> {
            self.0.push(count);
            let each = if matches!(via, Via::Direct) {
                3000
            } else {
                1000
            };
            Ok(count as u64 * each)
        }
    }

    #[test]
    fn everyone_gets_as_many_turns() {
        let mut fake = Fake(Vec::new());
        let mut participants = [Via::Plain, Via::Plain, Via::Direct];
        let blocks = Blocks::Timed { multiple_of: 10 };
        let mut prepared = 0;
        let mut before = || prepared += 1;
        let time = Duration::ZERO;
        let series = run(&mut fake, &mut participants, &blocks, time, &mut before).unwrap();
        assert_eq!(prepared, 3 * ROUNDS_MIN);
        assert_eq!(series[0], [1000.0; ROUNDS_MIN]);
        assert_eq!(series[2], [3000.0; ROUNDS_MIN]);
        assert!(fake.0.iter().all(|count| count.is_multiple_of(10)));
    }

    #[test]
    fn a_block_takes_about_its_time() {
        let mut fake = Fake(Vec::new());
        assert_eq!(calibrate(&mut fake, &mut Via::Plain, 1), Ok(1000));
        assert_eq!(calibrate(&mut fake, &mut Via::Direct, 64), Ok(384));
    }
}
