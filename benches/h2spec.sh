#!/usr/bin/env bash
# h2spec, the conformance suite of HTTP/2, against `laio serve`: over clear text and over TLS, round after round.
#
#   benches/h2spec.sh [ROUNDS]
#
# ROUNDS is 1 if it is not given. Settings, by the environment:
#   LAIO    the laio command    (default: target/release/laio, built if it is not there)
#   H2SPEC  the h2spec command  (default: h2spec)
#
# Prints how many cases passed in each round, and the cases that failed. Fails if any did.
#
# h2spec 2.2.1 is a Go program:  go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
# (Go's own name for that version: the short one, @v2.2.1, is refused by some module proxies).
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-1}
laio=${LAIO:-target/release/laio}
h2spec=${H2SPEC:-h2spec}

if ! command -v "$h2spec" >/dev/null; then
    echo "h2spec is absent, so this run is skipped."
    echo "To install it: go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"
    exit 0
fi
command -v openssl >/dev/null || { echo "openssl, which makes the certificate, is absent: this run is skipped."; exit 0; }
if [ -z "${LAIO:-}" ] && [ ! -x "$laio" ]; then
    cargo build --release --locked --quiet --package laio-cli
fi

room=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; wait 2>/dev/null; rm -rf "$room"' EXIT

mkdir "$room/site"
head -c 4096 /dev/urandom | base64 >"$room/site/index.html"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' -keyout "$room/key.pem" -out "$room/cert.pem" 2>/dev/null

"$laio" serve "$room/site" --log off --tls-cert "$room/cert.pem" --tls-key "$room/key.pem" \
    --listen 127.0.0.1:0 --listen tls:127.0.0.1:0 2>"$room/said" &
pid=$!
for _ in $(seq 100); do
    grep -q 'Ctrl-C stops' "$room/said" && break
    kill -0 "$pid" || { cat "$room/said"; exit 1; }
    sleep 0.1
done
port() { sed -n "s|^  $1://127.0.0.1:\([0-9]*\)/.*|\1|p" "$room/said"; }

failed=0
run() {
    local name=$1
    shift
    if ! timeout 600 "$h2spec" --host 127.0.0.1 "$@" >"$room/out" 2>&1; then
        failed=$((failed + 1))
        sed -n '/^Failures:/,/^Finished/p' "$room/out"
    fi
    echo "round $round, $name: $(grep -E '^[0-9]+ tests' "$room/out" | tail -n 1)"
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
