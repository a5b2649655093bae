#!/usr/bin/env bash
# What the C API costs: getpid and a cached 4 KiB pread through laio_syscall() against syscall(2), and whether
# threads disturb each other. Builds and installs the library into a temporary directory.
#
#   benches/capi.sh
#
# Settings, by the environment:
#   CC            the C compiler  (default: cc)
#   LAIO_BACKEND  the back end    (default: lazy)
set -euo pipefail
cd "$(dirname "$0")/.."

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cargo xtask install --no-program --prefix "$root" >/dev/null
"${CC:-cc}" -O2 benches/capi.c -o "$root/capi" -I"$root/include" -L"$root/lib" -llaio -pthread
LD_LIBRARY_PATH="$root/lib" "$root/capi"
