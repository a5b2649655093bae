//! Prints the needs of the tests that this machine lacks, for `LAIO_TEST_MAY_SKIP`. `.ci/lacks` runs this
//! program.
//!
//! With `--why` it prints a line with a description for each.

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
