#!/usr/bin/env bash
# Counts the lines of code of the server's steps that LAIO (2004, table 5) shortened in Flash, next to the
# published numbers.
#
#   benches/lines.sh
#
# Without blank lines, comments and tests.
set -euo pipefail
cd "$(dirname "$0")/../crates/laio-serve-core/src"

lines() {
    local file
    for file in "$@"; do sed '/^#\[cfg(test)\]/,$d' "$file"; done |
        grep -cvE '^[[:space:]]*(//|$)' || true
}

format='%-42s %18s %16s %7s   %s\n'
printf "$format" step 'Flash, 2004' 'with LAIO, 2004' today files
printf "$format" 'reading a file' 550 15 "$(lines files/read.rs)" files/read.rs
printf "$format" 'name conversion (and opening)' 610 375 "$(lines files/resolve.rs files/uncached.rs request/open.rs)" \
    'files/resolve.rs files/uncached.rs request/open.rs'
printf "$format" 'state of writes that were done in part' 70 0 0 'none: a write ends when all is written'
