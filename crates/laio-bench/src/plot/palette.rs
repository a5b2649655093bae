//! The colours of series: a subject has the same colour in all plots.

use super::canvas::COLOURS;

/// In the order of colours. Similar series that never occur in one plot in the same style share a colour.
const KNOWN: [&[&str]; COLOURS] = [
    &["lazy", "laio lazy", "flash-laio", "thttpd-laio"],
    &["threads", "flash-amped", "thttpd-laiogen"],
    &["uring", "fio io_uring"],
    &["activations"],
    &["posix-aio", "fio posixaio", "seda"],
    &["hybrid", "nginx"],
    &["plain threads", "lighttpd"],
    &[
        "linux-aio",
        "fio libaio",
        "laio serve",
        "flash-nb-aio",
        "ohttpd-all",
    ],
    &["lazy-epoll", "flash-nb-b", "thttpd-nb-b"],
    &["lazy-trusting", "ohttpd-networkonly"],
];

/// Returns the colour of each series: its own, or else the next free one, as long as there are any.
pub(super) fn colours<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<usize> {
    let own = |name: &str| KNOWN.iter().position(|alike| alike.contains(&name));
    let taken: Vec<usize> = names.clone().filter_map(own).collect();
    let mut free = (0..COLOURS)
        .filter(|colour| !taken.contains(colour))
        .chain((0..COLOURS).cycle());
    names
        .map(|name| own(name).unwrap_or_else(|| free.next().expect("it is endless")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contestants_keep_their_colours_and_others_take_what_is_left() {
        assert_eq!(colours(["2005", "lazy", "rsync"].into_iter()), [1, 0, 2]);
        assert_eq!(colours(["threads", "lazy"].into_iter()), [1, 0]);
        let many: Vec<String> = (0..12).map(|number| number.to_string()).collect();
        let all = colours(many.iter().map(String::as_str));
        assert_eq!(all[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(all[10..], [0, 1]);
    }
}
