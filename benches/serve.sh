#!/usr/bin/env bash
# Compares `laio serve` with nginx and lighttpd, all with one worker on one processor, the client on the
# other, in interleaved rounds: requests per second, the server's processor time per request (/proc), p50 and
# p99.
#
#   benches/serve.sh [CASE...]
#
# Cases, described in docs/serve/speed.md (default: all):
#   warm close    64 files of each size in memory, connections kept or one for each request (1 and 10 KiB); warm
#                 also with `bare`, a loop of epoll, recv and send of prepared bytes (benches/serve/bare.c), the
#                 limit of plain system calls
#   tls           1 KiB and 1 MiB over TLS, connections kept; a connection for each request, with new sessions and
#                 resumed ones
#   idle          warm with 10,000 idle connections, and the memory of each
#   attack        the same with 1,000 deliberately slow connections
#   bbr           100 KiB and 1 MiB of warm, where the kernel paces what is sent; all others have cubic
#   cold          each file once, after dropping the caches, from the disk of ROOM
#   loop          the same from a loop device
#   slow          the same, from a disk whose reads take 2 ms
#   limited       cached files and others, from a disk with 500 reads per second
#
# Environment variables:
#   LAIO     the command to measure       (default: target/release/laio, which is built first)
#   ROUNDS   rounds, of which the median  (default: 3)
#   SECONDS_EACH  of each measurement of warm, close, tls and idle  (default: 3)
#   SERVERS  which servers, of: bare laio laio-no-cache nginx nginx-threads nginx-NUMBER-OF-WORKERS lighttpd
#   FILES    files of the cold cases      (default: 20000)
#   ROOM     directory for files, 3 GB on a disk  (default: the directory for temporary files)
#   RESULTS  a file for the lines of all rounds  (default: none)
#
# Needs wrk for warm, close, tls and idle, and openssl for tls; nginx and lighttpd take part if installed. Cold, slow and limited need
# root: they mount file systems (slow and limited one of FUSE) and drop caches.
set -euo pipefail
cd "$(dirname "$0")/.."

laio=${LAIO:-target/release/laio}
rounds=${ROUNDS:-3}
seconds=${SECONDS_EACH:-3}
files=${FILES:-20000}
cases=${*:-warm close tls idle attack bbr cold loop slow limited}
tick=$(getconf CLK_TCK)
ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -Hn)"

if [ -z "${LAIO:-}" ]; then cargo build -q --release -p laio-cli; fi
if [[ " $cases " =~ \ (idle|attack|slow|limited)\  ]]; then
    cargo build -q --release -p laio-bench --example bad_clients -p laio-testing --example slow_disk
fi
helpers=$PWD/target/release/examples
workdir=$(mktemp -d -p "${ROOM:-${TMPDIR:-/tmp}}")
: >"$workdir/lines"

# shellcheck source=benches/serve/servers.sh
. benches/serve/servers.sh
# shellcheck source=benches/serve/measure.sh
. benches/serve/measure.sh
# shellcheck source=benches/serve/disks.sh
. benches/serve/disks.sh
# shellcheck source=benches/serve/cases.sh
. benches/serve/cases.sh

# Its pacing leaves both sides of a connection on one machine idle: bbr is a case of its own.
congestion=$(sysctl -n net.ipv4.tcp_congestion_control)
[ "$congestion" = cubic ] || sysctl -q net.ipv4.tcp_congestion_control=cubic || echo "measured with $congestion" >&2

finish() {
    sysctl -q "net.ipv4.tcp_congestion_control=$congestion" || true
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    detach
    wait 2>/dev/null || true
    rm -rf "$workdir"
}
trap finish EXIT
trap 'exit 130' INT TERM

for case in $cases; do
    case $case in
    warm) in_memory warm 1 10 100 1024 10240 ;;
    close) in_memory close 1 10 ;;
    tls | idle | attack | bbr | cold | loop | slow | limited) "$case" ;;
    *) echo "no case is called $case" >&2; exit 2 ;;
    esac
    report
done
