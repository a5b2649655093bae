#!/usr/bin/env bash
# Requests a mixed trace from `laio serve` while its world changes, and counts what fails.
#
#   benches/soak.sh
#
# Three load clients at the same time request small and large files over HTTP, the same over TLS, and paths of an
# upstream (another `laio serve`), each request checked for status and length, until they have made REQUESTS in all.
# Meanwhile, in turn, every few seconds: the server reloads its configuration (SIGHUP), the upstream is replaced by a new
# process that takes its sockets (SIGUSR2), which closes the connections that the server keeps to it, files are replaced
# by others of the same length, and the certificate is renewed. The first third of the run is a warm-up: caches fill.
# After it, the memory of the server may not grow: the script compares the mean of the second and of the last third.
#
# Prints the failed requests of each client, the events, and the memory in ten steps. Exit code 1 if a request failed
# or the memory grew by more than GROWTH percent.
#
# Environment variables:
#   LAIO      the command              (default: target/release/laio, which is built first)
#   REQUESTS  requests in all          (default: 10000000)
#   PAUSE     seconds between events   (default: 2)
#   GROWTH    allowed growth, percent  (default: 5)
#   RESULTS   a file for the samples of the memory: second, requests so far, KiB  (default: none)
#
# Needs openssl.
set -euo pipefail
cd "$(dirname "$0")/.."

laio=${LAIO:-target/release/laio}
requests=${REQUESTS:-10000000}
pause=${PAUSE:-2}
growth=${GROWTH:-5}
[ -n "${LAIO:-}" ] || cargo build -q --release -p laio-cli
command -v openssl >/dev/null || { echo "openssl is not installed" >&2; exit 1; }

workdir=$(mktemp -d -p "${TMPDIR:-/tmp}")
started=()
finish() {
    local pid
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$workdir"
}
trap finish EXIT
trap 'exit 130' INT TERM

free_port() {
    local port=$1
    while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 10)); done
    echo "$port"
}

await() {
    local _
    for _ in $(seq 200); do
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
        sleep 0.05
    done
    echo "no server listens on port $1" >&2
    exit 1
}

# Creates a certificate beside the present one, and moves it into its place.
certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
        -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' -keyout "$workdir/new.key" -out "$workdir/new.pem" 2>/dev/null
    cat "$workdir/new.key" >>"$workdir/new.pem"
    mv "$workdir/new.pem" "$workdir/both.pem"
}

# Creates the files and the traces. Three sizes: one that the server caches in memory, one that it sends with
# sendfile, and one of a few bytes.
files() {
    local n size
    mkdir -p "$workdir/site/files" "$workdir/app/app"
    for n in $(seq 0 299); do
        case $((n % 10)) in 0) size=200000 ;; 1 | 2) size=30000 ;; *) size=$((500 + n)) ;; esac
        head -c $size /dev/urandom >"$workdir/site/files/$n"
        printf -- '-\t200\t%d\t/files/%d\n' $size "$n" >>"$workdir/static.trace"
        [ "$n" -ge 50 ] || {
            head -c $((2000 + n)) /dev/urandom >"$workdir/app/app/$n"
            printf -- '-\t200\t%d\t/app/%d\n' $((2000 + n)) "$n" >>"$workdir/upstream.trace"
        }
    done
    for n in static upstream; do
        { echo '# laio trace 1'; shuf --random-source=<(yes) "$workdir/$n.trace"; } >"$workdir/trace"
        mv "$workdir/trace" "$workdir/$n.trace"
    done
}

# Lets a new process take the sockets of the upstream, and waits until the old one has ended.
replace_upstream() {
    local replaced=$upstream said _
    kill -USR2 "$replaced"
    # The old process names the new one, which is no child of this script.
    for _ in $(seq 1000); do
        said=$(sed -n 's/^process \([0-9]*\) serves.*/\1/p' "$workdir/upstream.err" | tail -n 1)
        [ -z "$said" ] || upstream=$said
        [ "$upstream" = "$replaced" ] || break
        sleep 0.01
    done
    [ "$upstream" != "$replaced" ] || { echo "no new process serves the upstream: $(cat "$workdir/upstream.err")"; exit 1; }
    started+=("$upstream")
    while kill -0 "$replaced" 2>/dev/null && [ "$(awk '{ print $3 }' "/proc/$replaced/stat" 2>/dev/null)" != Z ]; do sleep 0.05; done
}

backend=$(free_port 18200)
plain=$(free_port 18202) encrypted=$(free_port 18203)
files
certificate
"$laio" serve "$workdir/app" --listen "127.0.0.1:$backend" --workers 1 --log off 2>"$workdir/upstream.err" &
upstream=$!
started+=("$upstream")
await "$backend"
cat >"$workdir/serve.toml" <<END
root = "$workdir/site"
listen = ["127.0.0.1:$plain", "tls:127.0.0.1:$encrypted"]
tls-cert = ["$workdir/both.pem"]
tls-key = ["$workdir/both.pem"]
log = "$workdir/access.log"
max-requests = 1000
[proxy]
"/app" = "http://127.0.0.1:$backend"
END
"$laio" serve --config "$workdir/serve.toml" 2>"$workdir/serve.err" &
server=$!
started+=("$server")
await "$plain"
await "$encrypted"

# client NAME SHARE URL TRACE [OPTION...]
declare -A clients=()
client() {
    local name=$1 share=$2 url=$3 trace=$4
    shift 4
    "$laio" load "$url" --trace "$workdir/$trace.trace" --clients 16 --fetches $((requests * share / 100)) --no-verify \
        --json "$workdir/$name.json" "$@" >/dev/null 2>"$workdir/$name.err" &
    clients[$name]=$!
    started+=($!)
}
client plain 60 "http://127.0.0.1:$plain" static
client encrypted 25 "https://127.0.0.1:$encrypted" static --insecure
client upstream 15 "http://127.0.0.1:$plain" upstream

running() {
    local name
    for name in "${!clients[@]}"; do kill -0 "${clients[$name]}" 2>/dev/null && return 0; done
    return 1
}

declare -A events=([reload]=0 [certificate]=0 [upstream]=0 [files]=0)
event() {
    local kind=$1 n
    events[$kind]=$((events[$kind] + 1))
    case $kind in
    reload) kill -HUP "$server" ;;
    certificate) certificate ;;
    upstream) replace_upstream ;;
    files)
        for n in $(seq 3 10 299); do
            cp "$workdir/site/files/$n" "$workdir/copy"
            mv "$workdir/copy" "$workdir/site/files/$n"
        done
        ;;
    esac
    # Lines of the log are not needed, and would fill the disk.
    : >"$workdir/access.log"
}

begun=$SECONDS
kinds=(reload upstream files certificate)
for ((turn = 0; ; turn++)); do
    running || break
    kill -0 "$server" 2>/dev/null || { echo "the server has ended"; cat "$workdir/serve.err"; exit 1; }
    echo "$((SECONDS - begun)) $(awk '/^VmRSS/ { print $2 }' "/proc/$server/status")" >>"$workdir/memory"
    event "${kinds[turn % 4]}"
    sleep "$pause"
done

failed=0
for name in plain encrypted upstream; do
    wait "${clients[$name]}" || true
    [ -s "$workdir/$name.json" ] || { echo "$name: $(cat "$workdir/$name.err")"; failed=1; continue; }
    awk -v name="$name" '
        { gsub(/[",]/, ""); key = $1; sub(/:$/, "", key) }
        key == "errors" && $2 == "{" { listed = 1; next }
        listed && $1 == "}" { listed = 0 }
        listed { failed += $NF; list = list "; " $0 }
        key == "requests" && !requests { requests = $2 }
        END { gsub(/  +/, " ", list); printf "%-10s %9d requests, %d failed%s\n", name, requests, failed, list; exit failed > 0 }' "$workdir/$name.json" || failed=1
done
echo "in $((SECONDS - begun)) s: ${events[reload]} reloads, ${events[upstream]} replacements of the upstream, ${events[files]} replacements of files, ${events[certificate]} certificates"
[ -z "${RESULTS:-}" ] || tr ' ' '\t' <"$workdir/memory" >"$RESULTS"
awk -v most="$growth" '
    { kib[NR] = $2 }
    END {
        for (i = 1; i <= 10; i++) line = line " " int(kib[int((NR - 1) * i / 10) + 1] / 1024)
        print "memory in MiB, in ten steps:" line
        for (i = int(NR / 3) + 1; i <= int(2 * NR / 3); i++) { middle += kib[i]; m++ }
        for (i = int(2 * NR / 3) + 1; i <= NR; i++) { last += kib[i]; l++ }
        grown = m && l ? (last / l) / (middle / m) * 100 - 100 : 0
        printf "growth from the second to the last third: %.1f %%\n", grown
        exit grown > most
    }' "$workdir/memory" || failed=1
[ ! -s "$workdir/serve.err" ] || { echo "messages of the server, by number:"; sed 's/[0-9][0-9:.-]*/N/g' "$workdir/serve.err" | sort | uniq -c | sort -rn | head -20; }
exit $failed
