#!/usr/bin/env bash
# Judges HTTP/3 of `laio serve` by two other implementations: the cases of the QUIC interop runner for a server, by
# the clients aioquic (Python) and quic-go (Go), and clients that violate QUIC.
#
#   benches/http3-judge.sh
#
# Environment variables:
#   LAIO   the laio command                                (default: target/release/laio, built if missing)
#   TOOLS  where the clients are installed, to keep them   (default: a temporary directory)
#
# Installs the clients from the registries of Python and Go. Prints a line for each case. Fails if a case failed.
set -euo pipefail
cd "$(dirname "$0")/.."

AIOQUIC=1.7.2
laio=${LAIO:-target/release/laio}
for needed in python3 go openssl; do
    command -v "$needed" >/dev/null || { echo "$needed is absent: this run is skipped."; exit 0; }
done
if [ -z "${LAIO:-}" ] && [ ! -x "$laio" ]; then
    cargo build --release --locked --quiet --package laio-cli
fi

workdir=$(mktemp -d)
tools=${TOOLS:-$workdir}
pids=()
trap 'for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; wait 2>/dev/null; rm -rf "$workdir"' EXIT

if [ ! -x "$tools/python/bin/python" ] || ! "$tools/python/bin/python" -c 'import aioquic' 2>/dev/null; then
    python3 -m venv "$tools/python"
    "$tools/python/bin/pip" install --quiet "aioquic==$AIOQUIC"
fi
benches/http3-judge/install-quic-go "$tools"

site=$workdir/site
mkdir -p "$site/many"
head -c 1024 /dev/urandom >"$site/1K"
for size in 2 3 5; do head -c "${size}M" /dev/urandom >"$site/${size}M"; done
for number in $(seq 0 1999); do printf '%032d' "$number" >"$site/many/$number"; done
# With many names, the certificate takes more than a server may send before a client has shown its address.
names=$(printf ',DNS:name-%d.example' $(seq 200))
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -addext "subjectAltName=DNS:localhost,IP:127.0.0.1$names" \
    -keyout "$workdir/key.pem" -out "$workdir/cert.pem" 2>/dev/null

# Starts a server with further options, and sets `port`.
serve() {
    local said=$workdir/said.$1
    shift
    "$laio" serve "$site" --log off --http3 --workers 2 --tls-cert "$workdir/cert.pem" --tls-key "$workdir/key.pem" \
        --listen tls:127.0.0.1:0 "$@" 2>"$said" &
    pids+=($!)
    for _ in $(seq 100); do
        grep -q 'Ctrl-C stops' "$said" && break
        kill -0 "${pids[-1]}" || { cat "$said"; exit 1; }
        sleep 0.1
    done
    port=$(sed -n 's|^  https://127.0.0.1:\([0-9]*\)/.*|\1|p' "$said")
}
serve usual
usual=$port
serve retry --http3-retry-from 0
retry=$port
serve early --early-data
"$tools/python/bin/python" benches/http3-judge/judge.py "$workdir/cert.pem" "$site" "$usual" "$retry" "$port" "$tools/quic_go"
