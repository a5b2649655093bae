#!/usr/bin/env bash
# Measures what co_await of laio.hpp costs beside plain calls and laio_syscall(). Builds and installs the library into a
# temporary directory.
#
#   benches/coroutines.sh
#
# Environment variables:
#   CXX           the C++ compiler (default: c++)
#   LAIO_BACKEND  the back end     (default: lazy)
set -euo pipefail
cd "$(dirname "$0")/.."

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cargo xtask install --no-program --prefix "$root" >/dev/null
"${CXX:-c++}" -std=c++20 -O2 benches/coroutines.cpp -o "$root/coroutines" -I"$root/include" -L"$root/lib" -llaio -pthread
LD_LIBRARY_PATH="$root/lib" "$root/coroutines"
