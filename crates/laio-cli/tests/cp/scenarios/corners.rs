//! Differences that random trees and command lines have found.

use crate::case::{Case, case};

#[rustfmt::skip]
pub(crate) fn cases() -> Vec<Case> {
    let pair = "file a; dir d";
    let endless = "link l l; file a";
    let nested = "file s/t/a; link s/l t; link s/n nowhere; dir d";
    let owned = "file s/t/a; own 0:0 s/t";
    vec![
        case("a value like an option", "file a; dir -m", "-t -m a"),
        case("a long value like an option", "file a; dir -m", "--target-directory -m a"),
        case("a suffix like an option", "file a; file b", "-b -S -x a b"),
        case("a value behind other letters", "file a; dir -m", "-pvt -m a"),
        case("a value with an equals sign", "file a; dir =m", "-t =m a"),
        case("an empty suffix", "file a; file b", "-b -S '' a b"),
        case("the same file twice, with backups", pair, "-b a a d"),
        case("the same file twice, with numbered backups", pair, "--backup=t a a d"),
        case("a directory twice onto itself", "file s/a", "-r s s ."),
        case(
            "the contents of a directory among others",
            "many s 50; file s/a =of s; file a; file b; dir d",
            "-r a s/. b d",
        ),
        case("onto itself, never overwriting", "file s/a", "-rn s ."),
        case("-s to a directory that is not there", "file a", "-s a x/y"),
        case("-rv to a directory that is not there", "file s/a", "-rv s x/y"),
        case("an unreadable file over an endless link", "file a; mode 0 a; link l l", "-f a l").user(),
        case("a file over an endless link by force", endless, "-f a l"),
        case("a link over an endless link by force", "link k a; link l l", "-af k l"),
        case("a missing file over an endless link by force", endless, "-f b l"),
        case("-a -s keeps times", "file a", "-as a l"),
        case("-s --preserve=ownership", "file a; own 5:6 a", "-s --preserve=ownership a l"),
        case("-u a second younger than an even one", "file a; file b; time 1 a; time 0 b", "-au a b"),
        // GNU's cp cannot create `d/s/l/.`.
        case("--parents of a link with a dot", nested, "-r --parents s/l/. d")
        .against("mkdir d/s d/s/l && cp -r s/l/. d/s/l"),
        case("--parents of a link with a slash", nested, "-r --parents s/l/ d"),
        case("--parents of a file with a slash", nested, "-r --parents s/t/a/ d"),
        // The messages differ: GNU's names attributes.
        case("--parents of a dangling link with a dot", nested, "-r --parents s/n/. d").any_output(),
        case("--parents -p where all are there", owned, "-p --parents s/t/a .").user(),
        case(
            "--parents -al where all are there",
            "file s/t/a; file d/s/t/b; own 0:0 d/s/t; mode 777 d/s/t",
            "-al --parents s/t/a d",
        )
        .user(),
    ]
}
