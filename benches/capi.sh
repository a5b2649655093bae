#!/usr/bin/env bash
# Measures the cost of the C API: getpid and a cached 4 KiB pread through laio_syscall() and syscall(2), and
# whether threads slow each other down. Builds and installs the library into a temporary directory.
#
#   benches/capi.sh
#
# Environment variables:
#   CC            the C compiler  (default: cc)
#   LAIO_BACKEND  the back end    (default: lazy)
set -euo pipefail
cd "$(dirname "$0")/.."

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cargo xtask install --no-program --prefix "$root" >/dev/null
"${CC:-cc}" -O2 benches/capi.c -o "$root/capi" -I"$root/include" -L"$root/lib" -llaio -pthread
LD_LIBRARY_PATH="$root/lib" "$root/capi"
