//! Which needs of the tests this machine lacks, for `LAIO_TEST_MAY_SKIP`: `.ci/lacks` is this program.
//!
//! With `--why` each has a line of its own, with what it is.

use laio_testing::needs::NEEDS;

fn main() {
    let lacking: Vec<_> = NEEDS.iter().filter(|need| !need.is_there()).collect();
    if std::env::args().nth(1).as_deref() == Some("--why") {
        for need in lacking {
            println!("{:16} {}", need.name, need.what);
        }
        return;
    }
    let names: Vec<_> = lacking.iter().map(|need| need.name).collect();
    println!("{}", names.join(","));
}
