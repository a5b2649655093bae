#!/usr/bin/env bash
# The long tests of the back end `activations`, which take too long for `cargo test`. Each prints its results,
# and fails if a result is wrong, lost or duplicated.
#
#     benches/activations.sh million      a million hand-offs, with each detector, on two processors and on one
#     benches/activations.sh storms       5,000 signals, three times, with each detector, on two processors and on one
#     benches/activations.sh sanitizers   100,000 hand-offs under the sanitizers of Rust (needs a nightly toolchain with
#                                         rust-src) and of gcc, with each detector
#     benches/activations.sh random       random programs, by plain calls and through laio, for some minutes
#
# The environment variables HANDOFFS, SIGNALS and PROGRAMS change the numbers.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
one="taskset -c $(awk '/^Cpus_allowed_list/ { split($2, a, /[-,]/); print a[1] }' /proc/self/status)"

found() { grep -E 'results checked|sent,|skipped|WARNING|ERROR|^test result' || true; }

million() {
    for where in "" "$one"; do
        echo "million: ${where:-all processors}"
        LAIO_STRESS_HANDOFFS=${HANDOFFS:-1000000} $where cargo test --quiet -p laio --test suite activations::stress \
            -- --nocapture | found
    done
}

storms() {
    for round in 1 2 3; do
        for where in "" "$one"; do
            echo "storm $round: ${where:-all processors}"
            LAIO_STORM_SIGNALS=${SIGNALS:-5000} $where cargo test --quiet -p laio --test suite activations::signals | found
        done
    done
}

# TSan keeps a function stack for each thread; the functions of carriers do not return.
rust_sanitizer() {
    local name=$1 more=$2 host
    host=$(rustc -vV | sed -n 's/^host: //p')
    echo "rust, $name"
    RUSTFLAGS="--cfg laio_sanitized -Zsanitizer=$name $more" CARGO_TARGET_DIR=$target/sanitized-$name \
        LAIO_STRESS_HANDOFFS=${HANDOFFS:-100000} ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=halt_on_error=1 \
        cargo +nightly test --quiet -Zbuild-std --target "$host" -p laio --test suite activations::stress -- --nocapture | found
}

# Installs the C library, and prints the directory.
installed() {
    cargo xtask install --prefix "$target/activations" >/dev/null
    echo "$target/activations"
}

c_sanitizer() {
    local name=$1 prefix=$2 program
    program=$prefix/handoffs-${name//,/-}
    echo "C, $name"
    gcc -std=c99 -pthread -O1 -g "-fsanitize=$name" -I "$prefix/include" crates/laio-capi/tests/c/handoffs.c \
        -o "$program" -L "$prefix/lib" -llaio
    UBSAN_OPTIONS=halt_on_error=1 TSAN_OPTIONS=halt_on_error=1 LD_LIBRARY_PATH=$prefix/lib LAIO_BACKEND=activations \
        "$program" "${HANDOFFS:-100000}"
}

sanitizers() {
    local prefix
    prefix=$(installed)
    c_sanitizer address,undefined "$prefix"
    c_sanitizer thread "$prefix"
    rust_sanitizer address -Cforce-frame-pointers=yes
    rust_sanitizer thread -Cllvm-args=-tsan-instrument-func-entry-exit=0
}

random() {
    LAIO_PROGRAMS=${PROGRAMS:-20000} cargo test --quiet -p laio --test suite differential::activations -- --nocapture | found
}

[ $# -gt 0 ] || { sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'; exit 2; }
for what in "$@"; do
    case $what in
    million | storms | sanitizers | random) $what ;;
    *) echo "$0: there is no test \`$what'" >&2; exit 2 ;;
    esac
done
