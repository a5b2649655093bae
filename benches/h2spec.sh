#!/usr/bin/env bash
# Runs h2spec, the conformance suite of HTTP/2, against `laio serve`: over clear text and over TLS, round
# after round.
#
#   benches/h2spec.sh [ROUNDS]
#
# ROUNDS defaults to 1. Environment variables:
#   LAIO    the laio command    (default: target/release/laio, built if missing)
#   H2SPEC  the h2spec command  (default: h2spec)
#
# Prints how many cases passed in each round, and the failed cases. Fails if a case failed.
#
# h2spec 2.2.1 is a Go program:  go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
# (Go's own name for that version: the short one, @v2.2.1, is refused by some module proxies).
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-1}
laio=${LAIO:-target/release/laio}
h2spec=${H2SPEC:-h2spec}

if ! command -v "$h2spec" >/dev/null; then
    echo "h2spec is not installed: skipping the run."
    echo "To install it: go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"
    exit 0
fi
command -v openssl >/dev/null || { echo "openssl, which makes the certificate, is absent: this run is skipped."; exit 0; }
if [ -z "${LAIO:-}" ] && [ ! -x "$laio" ]; then
    cargo build --release --locked --quiet --package laio-cli
fi

workdir=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; wait 2>/dev/null; rm -rf "$workdir"' EXIT

mkdir "$workdir/site"
head -c 4096 /dev/urandom | base64 >"$workdir/site/index.html"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' -keyout "$workdir/key.pem" -out "$workdir/cert.pem" 2>/dev/null

"$laio" serve "$workdir/site" --log off --tls-cert "$workdir/cert.pem" --tls-key "$workdir/key.pem" \
    --listen 127.0.0.1:0 --listen tls:127.0.0.1:0 2>"$workdir/said" &
pid=$!
for _ in $(seq 100); do
    grep -q 'Ctrl-C stops' "$workdir/said" && break
    kill -0 "$pid" || { cat "$workdir/said"; exit 1; }
    sleep 0.1
done
port() { sed -n "s|^  $1://127.0.0.1:\([0-9]*\)/.*|\1|p" "$workdir/said"; }

failed=0
run() {
    local name=$1
    shift
    if ! timeout 600 "$h2spec" --host 127.0.0.1 "$@" >"$workdir/out" 2>&1; then
        failed=$((failed + 1))
        sed -n '/^Failures:/,/^Finished/p' "$workdir/out"
    fi
    echo "round $round, $name: $(grep -E '^[0-9]+ tests' "$workdir/out" | tail -n 1)"
}
for round in $(seq "$rounds"); do
    run "clear text" --port "$(port http)"
    run "TLS" --port "$(port https)" --tls --insecure
done
if [ "$failed" -gt 0 ]; then
    echo "$failed of $((2 * rounds)) runs had failures"
    exit 1
fi
echo "all $((2 * rounds)) runs passed"
