#!/usr/bin/env bash
# Requests a mixed trace from `laio serve` while its world changes, and counts what fails.
#
#   benches/soak.sh
#
# Three load clients at the same time request small and large files and missing ones over HTTP, the same over TLS, and
# paths of upstreams (other `laio serve`), each request checked for status and length, until they have made REQUESTS in
# all. Beside them, until they end, other clients check the contents of what they get:
#
#   http2     files over HTTP/2, with the certificate of the authority verified
#   http3     files over HTTP/3 (needs curl_cffi: pip install curl_cffi)
#   text      files that the server compresses
#   uploads   files that are stored, read again and deleted
#   proxied   files through an address with the PROXY protocol
#   limited   a path with a rate limit, where 429 is a good answer
#
# Meanwhile, in turn, every few seconds: the server reloads its configuration (SIGHUP); an upstream is replaced by a new
# process that takes its sockets (SIGUSR2), which closes the connections that the server keeps to it; one of a pair of
# upstreams is killed (SIGKILL) and started again, while the other continues; files are replaced by others of the same
# length; and the certificate in a file is renewed. An authority (Pebble, .ci/install-pebble) issues a second
# certificate by ACME, with a lifetime of LIFETIME seconds, so that the server renews it again and again.
#
# No request may fail. The memory of the server may not grow: the first third of the run is a warm-up, in which caches
# fill; after it, the script compares the mean of the second and of the last third. A growth of up to GROWTH percent or
# SLACK MiB is allowed, whichever is more. The MiB are for short runs, whose first third is too short to fill everything:
# in one of 100,000 requests the memory grew from 31 to 75 MiB, by 9 MiB from the second to the last third. A leak grows
# with the requests, so a long run shows it: 12 MiB in a third of ten million requests are four bytes for each.
#
# Prints the progress, the failed requests of each client, the events, and the memory in ten steps. Exit code 1 if a
# request failed, the memory grew, or something in the list above did not happen at all.
#
# Environment variables:
#   LAIO      the command                              (default: target/release/laio, which is built first)
#   REQUESTS  requests of the load clients             (default: 10000000)
#   PAUSE     seconds between events                   (default: 2)
#   LIFETIME  seconds that a certificate is valid      (default: 60)
#   GROWTH    allowed growth of memory, percent        (default: 5)
#   SLACK     allowed growth of memory, MiB            (default: 12)
#   RESULTS   a file for the samples: second, responses so far, KiB of memory, separated by tabs  (default: none)
#
# Needs openssl and curl with HTTP/2.
set -euo pipefail
cd "$(dirname "$0")/.."

laio=${LAIO:-target/release/laio}
requests=${REQUESTS:-10000000}
pause=${PAUSE:-2}
lifetime=${LIFETIME:-60}
growth=${GROWTH:-5}
slack=${SLACK:-12}
[ -n "${LAIO:-}" ] || cargo build -q --release -p laio-cli
for needed in openssl curl; do
    command -v $needed >/dev/null || { echo "$needed is not installed" >&2; exit 1; }
done

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

taken=18200
# Sets the variable NAME to a port at which no server listens.
free_port() {
    while taken=$((taken + 1)) && (exec 3<>"/dev/tcp/127.0.0.1/$taken") 2>/dev/null; do :; done
    printf -v "$1" %d "$taken"
}

await() {
    local _
    for _ in $(seq 400); do
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
        sleep 0.05
    done
    echo "no server listens on port $1" >&2
    exit 1
}

# Creates a certificate beside the present one, and moves it into its place.
certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
        -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' -addext basicConstraints=critical,CA:FALSE \
        -keyout "$workdir/new.key" -out "$workdir/new.pem" 2>/dev/null
    cat "$workdir/new.key" >>"$workdir/new.pem"
    mv "$workdir/new.pem" "$workdir/both.pem"
}

# Creates the files and the traces. Three sizes: one that the server caches in memory, one that it sends with
# sendfile, and one of a few bytes.
files() {
    local n size prefix
    mkdir -p "$workdir"/site/{files,text,limited,up} "$workdir"/app/{app,pair,kept} "$workdir/got"
    for n in $(seq 0 299); do
        case $((n % 10)) in 0) size=200000 ;; 1 | 2) size=30000 ;; *) size=$((500 + n)) ;; esac
        head -c $size /dev/urandom >"$workdir/site/files/$n"
        printf -- '-\t200\t%d\t/files/%d\n' $size "$n" >>"$workdir/static.trace"
        [ $((n % 20)) -ne 0 ] || printf -- '-\t404\t0\t/missing/%d\n' "$n" >>"$workdir/static.trace"
        [ "$n" -ge 40 ] || seq "$n" $((n + 500 * (n + 1))) >"$workdir/site/text/$n.txt"
        [ "$n" -ge 50 ] || for prefix in app pair kept; do
            head -c $((2000 + n)) /dev/urandom >"$workdir/app/$prefix/$n"
            printf -- '-\t200\t%d\t/%s/%d\n' $((2000 + n)) $prefix "$n" >>"$workdir/upstream.trace"
        done
    done
    echo limited >"$workdir/site/limited/page"
    for n in static upstream; do
        { echo '# laio trace 1'; shuf --random-source=<(yes) "$workdir/$n.trace"; } >"$workdir/trace"
        mv "$workdir/trace" "$workdir/$n.trace"
    done
}

# Starts the authority, and sets `acme` to the keys of the configuration; or says that it is absent.
acme=() names=localhost
authority() {
    local tools program directory management dns hints
    tools=$PWD/target/tools:$PATH
    for program in pebble pebble-challtestsrv; do
        PATH=$tools command -v $program >/dev/null || {
            echo "skipped: certificates by ACME, because $program is not installed: .ci/install-pebble"
            return
        }
    done
    free_port directory; free_port management; free_port dns; free_port hints
    cat >"$workdir/pebble.json" <<END
{"pebble": {"listenAddress": "127.0.0.1:$directory", "managementListenAddress": "127.0.0.1:$management",
    "certificate": "$workdir/authority.pem", "privateKey": "$workdir/authority.pem",
    "httpPort": $plain, "tlsPort": $encrypted, "retryAfter": {"authz": 1, "order": 1}, "keyAlgorithm": "ecdsa",
    "profiles": {"default": {"description": "", "validityPeriod": $lifetime}}}}
END
    cp "$workdir/both.pem" "$workdir/authority.pem"
    PATH=$tools pebble-challtestsrv -dnsserver "127.0.0.1:$dns" -management "127.0.0.1:$hints" -defaultIPv6 '' \
        -http01 '' -https01 '' -tlsalpn01 '' -doh '' >/dev/null 2>&1 &
    started+=($!)
    # A renewal is checked like a first order.
    PATH=$tools PEBBLE_VA_NOSLEEP=1 PEBBLE_AUTHZREUSE=0 pebble -config "$workdir/pebble.json" \
        -dnsserver "127.0.0.1:$dns" >"$workdir/pebble.log" 2>&1 &
    started+=($!)
    await "$directory"
    await "$management"
    curl -sk --max-time 10 "https://localhost:$management/roots/0" >"$workdir/roots.pem"
    names=soak.example
    acme=("https = \"$names\"" "acme-directory = \"https://localhost:$directory/dir\"" "acme-retry = 1"
        "acme-ca = \"$workdir/authority.pem\"" "acme-state = \"$workdir/acme\"" 'redirect-http = "off"')
}

# Waits until a process that may be no child of this script has ended.
await_end() {
    while kill -0 "$1" 2>/dev/null && [ "$(awk '{ print $3 }' "/proc/$1/stat" 2>/dev/null)" != Z ]; do sleep 0.05; done
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
    await_end "$replaced"
}

# Starts a member of the pair. The kernel may close the sockets of a killed process later, when it has cancelled the
# requests of its ring, so that the port is still in use.
pair_ports=() pair=()
member() {
    local _
    for _ in $(seq 20); do
        "$laio" serve "$workdir/app" --listen "127.0.0.1:${pair_ports[$1]}" --workers 1 --log off \
            2>>"$workdir/pair.err" &
        pair[$1]=$!
        started+=($!)
        disown # The shell says nothing of its death.
        sleep 0.3
        ! kill -0 "${pair[$1]}" 2>/dev/null || break
    done
    await "${pair_ports[$1]}"
}

# Kills one of the pair, lets the other serve alone for a moment, and starts the killed one again.
kill_member() {
    local which=$((events[death] % 2))
    kill -KILL "${pair[$which]}" || { echo "an upstream has ended: $(tail "$workdir/pair.err")"; exit 1; }
    await_end "${pair[$which]}"
    sleep 0.5
    member $which
}

free_port backend; free_port first; free_port second; free_port admin
free_port plain; free_port encrypted; free_port headed
pair_ports=("$first" "$second")
files
certificate
authority
"$laio" serve "$workdir/app" --listen "127.0.0.1:$backend" --workers 1 --log off \
    --cache-control '/kept/**=max-age=2' 2>"$workdir/upstream.err" &
upstream=$!
started+=("$upstream")
await "$backend"
member 0
member 1
cat >"$workdir/serve.toml" <<END
root = "$workdir/site"
listen = ["127.0.0.1:$plain", "tls:127.0.0.1:$encrypted", "proxy:127.0.0.1:$headed"]
admin = "127.0.0.1:$admin"
tls-cert = ["$workdir/both.pem"]
tls-key = ["$workdir/both.pem"]
http3 = true
log = "$workdir/access.log"
max-requests = 1000
trust-proxy = ["127.0.0.1"]
compress = true
upload = "anyone"
rate = ["/limited/**=50/s"]
proxy-cache = 16777216
$(printf '%s\n' "${acme[@]}")
[proxy]
"/app" = "http://127.0.0.1:$backend"
"/kept" = "http://127.0.0.1:$backend"
"/pair" = ["http://127.0.0.1:$first", "http://127.0.0.1:$second"]
END
"$laio" serve --config "$workdir/serve.toml" 2>"$workdir/serve.err" &
server=$!
started+=("$server")
await "$plain"
await "$encrypted"
await "$admin"

# metric NAME: the sum of a metric of the server, over its labels.
metric() {
    curl -s --max-time 10 "http://127.0.0.1:$admin/metrics" \
        | awk -v name="$1" '$1 == name || index($1, name "{") == 1 { sum += $2 } END { printf "%d\n", sum }'
}
if [ ${#acme[@]} -gt 0 ]; then
    for _ in $(seq 300); do
        [ "$(metric laio_certificates_issued_total)" = 0 ] || break
        sleep 0.1
    done
    [ "$(metric laio_certificates_issued_total)" -gt 0 ] || { echo "no certificate: $(cat "$workdir/serve.err")"; exit 1; }
fi

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

# The clients that check contents. Each function makes one round and prints the number of its requests; what it writes
# to standard error are failures.

# Counts the lines at standard input. Those that do not match a pattern are failures.
statuses() {
    awk -v good="^($1)\$" '
        { n++ }
        $0 !~ good { bad[$0]++ }
        END { print n + 0; for (what in bad) print bad[what] " times " what >"/dev/stderr" }'
}

# Compares what curl has stored with the files that it requested.
compare() {
    diff -rq "$1" "$2" >&2 || true
    rm -rf "$1"
}

check_http2() {
    local got=$workdir/got/http2 trust=(--insecure) n
    [ "$names" = localhost ] || trust=(--cacert "$workdir/roots.pem")
    # More requests than `max-requests` allows on a connection.
    curl -sS --no-progress-meter --http2 "${trust[@]}" --resolve "$names:$encrypted:127.0.0.1" --parallel --parallel-max 10 --create-dirs \
        -o "$got/#2/#1" -w '%{http_version} %{http_code}\n' "https://$names:$encrypted/files/[0-299]?[1-4]" \
        | statuses '2 200'
    for n in 1 2 3 4; do compare "$got/$n" "$workdir/site/files"; done
}

check_text() {
    curl -sS --compressed --create-dirs -o "$workdir/got/text/#1.txt" -w '%{http_code} %header{content-encoding}\n' \
        "http://127.0.0.1:$plain/text/[0-39].txt" | statuses '200 (br|gzip|zstd)'
    compare "$workdir/got/text" "$workdir/site/text"
}

check_proxied() {
    curl -sS --haproxy-protocol --create-dirs -o "$workdir/got/proxied/#1" -w '%{http_code}\n' \
        "http://127.0.0.1:$headed/files/[0-299]" | statuses 200
    compare "$workdir/got/proxied" "$workdir/site/files"
}

# Each round stores the files of the round before again (204), or for the first time (201).
check_uploads() {
    local url=http://127.0.0.1:$plain/up/ from=$workdir/uploaded n
    mkdir -p "$from"
    for n in 1 2 3; do head -c $((RANDOM * n * n)) /dev/urandom >"$from/$n"; done
    {
        curl -sS -T "{$from/1,$from/2,$from/3}" -o /dev/null -w 'PUT %{http_code}\n' "$url"
        curl -sS --create-dirs -o "$workdir/got/uploads/#1" -w 'GET %{http_code}\n' "${url}[1-3]"
        [ $((RANDOM % 2)) = 0 ] || curl -sS -X DELETE -w 'DELETE %{http_code}\n' "${url}[1-3]"
    } | statuses 'PUT 201|PUT 204|GET 200|DELETE 204'
    compare "$workdir/got/uploads" "$from"
}

check_limited() {
    curl -sS -o /dev/null -w '%{http_code}\n' "http://127.0.0.1:$plain/limited/page?[1-100]" \
        | tee >(sort | uniq -c >"$workdir/limited.statuses") | statuses '200|429'
    awk '{ print $2 }' "$workdir/limited.statuses" >>"$workdir/limited.seen"
    sort -u -o "$workdir/limited.seen" "$workdir/limited.seen"
}

# checker NAME PAUSE: makes rounds until the load clients have ended.
checkers=()
checker() {
    local name=$1 pause=$2 made=0 n
    checkers+=("$name")
    : >"$workdir/$name.failures"
    echo 0 >"$workdir/$name.made"
    {
        while [ ! -e "$workdir/stop" ]; do
            n=$("check_$name" 2>"$workdir/$name.said") || true
            [ ! -s "$workdir/$name.said" ] || sed "s/^/$(date +%T) /" "$workdir/$name.said" >>"$workdir/$name.failures"
            made=$((made + n))
            echo $made >"$workdir/$name.made"
            sleep "$pause"
        done
    } &
    checks+=($!)
}
checks=()
checker http2 0.2
checker text 0.5
checker proxied 0.5
checker uploads 0.3
checker limited 1

# The client of HTTP/3 keeps its connection, so it is one process. A request that the server has not looked at before
# its GOAWAY may be repeated (RFC 9114, section 5.2), which curl does not do by itself.
if python3 -c 'import curl_cffi' 2>/dev/null; then
    checkers+=(http3)
    echo 0 >"$workdir/http3.made"
    python3 - "$workdir" "$encrypted" 2>"$workdir/http3.failures" <<'END' &
import os, pathlib, sys, time
from curl_cffi import requests

workdir, port = pathlib.Path(sys.argv[1]), sys.argv[2]
files = [path for path in (workdir / "site/files").iterdir()]
made, session = 0, requests.Session(http_version="v3only", verify=False, timeout=60)
while not (workdir / "stop").exists():
    for path in files:
        try:
            answer = session.get(f"https://localhost:{port}/files/{path.name}")
            if answer.status_code != 200 or answer.http_version != 30 or answer.content != path.read_bytes():
                print(f"{path.name}: status {answer.status_code}, version {answer.http_version}", file=sys.stderr)
        except Exception as error:
            print(f"{path.name}: {error}", file=sys.stderr)
        made += 1
    (workdir / "http3.made").write_text(f"{made}\n")
    time.sleep(0.2)
END
    checks+=($!)
else
    echo "skipped: HTTP/3, because python3 has no curl_cffi: pip install curl_cffi"
fi
started+=("${checks[@]}")

running() {
    local name
    for name in "${!clients[@]}"; do kill -0 "${clients[$name]}" 2>/dev/null && return 0; done
    return 1
}

declare -A events=([reload]=0 [certificate]=0 [upstream]=0 [death]=0 [files]=0)
event() {
    local kind=$1 n
    case $kind in
    reload) kill -HUP "$server" ;;
    certificate) certificate ;;
    upstream) replace_upstream ;;
    death) kill_member ;;
    files)
        for n in $(seq 3 10 299); do
            cp "$workdir/site/files/$n" "$workdir/copy"
            mv "$workdir/copy" "$workdir/site/files/$n"
        done
        ;;
    esac
    events[$kind]=$((events[$kind] + 1))
    # Lines of the log are not needed, and would fill the disk.
    : >"$workdir/access.log"
}

# Prints how far the run is, and takes a sample: on a terminal each time in the same line, elsewhere each half minute.
shown=0
progress() {
    local now=$((SECONDS - begun)) made kib failures text
    made=$(metric laio_responses_total)
    kib=$(awk '/^VmRSS/ { print $2 }' "/proc/$server/status")
    printf '%d\t%d\t%d\n' $now "$made" "$kib" >>"$workdir/memory"
    failures=$(cat "$workdir"/*.failures | wc -l)
    text="$now s: $made responses, $((made / (now > 0 ? now : 1))) in each second, $((kib / 1024)) MiB, $failures failures"
    if [ -t 2 ]; then
        printf '\r%s ' "$text" >&2
    elif [ $now -ge $((shown + 30)) ]; then
        echo "$text" >&2
        shown=$now
    fi
}

begun=$SECONDS
kinds=(reload upstream files death certificate)
for ((turn = 0; ; turn++)); do
    running || break
    kill -0 "$server" 2>/dev/null || { echo "the server has ended"; cat "$workdir/serve.err"; exit 1; }
    progress
    event "${kinds[turn % ${#kinds[@]}]}"
    sleep "$pause"
done
touch "$workdir/stop"
wait "${checks[@]}" || true
[ ! -t 2 ] || echo >&2

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
for name in "${checkers[@]}"; do
    printf '%-10s %9d requests, %d failures\n' "$name" "$(cat "$workdir/$name.made")" "$(wc -l <"$workdir/$name.failures")"
    [ "$(cat "$workdir/$name.made")" -gt 0 ] || { echo "$name: no round has ended"; failed=1; }
    [ ! -s "$workdir/$name.failures" ] || { head -n 20 "$workdir/$name.failures"; failed=1; }
    [ "$name" != http2 ] || [ ! -s "$workdir/$name.failures" ] || grep 'a certificate for' "$workdir/serve.err" | tail -n 10 || true
done
[ "$(xargs <"$workdir/limited.seen")" = "200 429" ] \
    || { echo "limited: the statuses are not 200 and 429, but: $(xargs <"$workdir/limited.seen")"; failed=1; }
took=$((SECONDS - begun))
for name in "${!events[@]}"; do
    [ "${events[$name]}" -gt 0 ] || { echo "the run was too short for the event: $name"; failed=1; }
done
issued=$(metric laio_certificates_issued_total)
[ ${#acme[@]} = 0 ] || [ "$issued" -gt 1 ] || [ $took -lt "$lifetime" ] || { echo "no certificate of the authority was renewed"; failed=1; }
echo "in $took s: $(metric laio_responses_total) responses, ${events[reload]} reloads, ${events[upstream]} replacements of an upstream," \
    "${events[death]} deaths of an upstream, ${events[files]} replacements of files, ${events[certificate]} certificates in a file," \
    "$issued certificates by ACME, $(metric laio_files_stored_total) uploads"
[ -z "${RESULTS:-}" ] || cp "$workdir/memory" "$RESULTS"
awk -v percent="$growth" -v slack="$slack" '
    { kib[NR] = $3 }
    END {
        for (i = 1; i <= 10; i++) line = line " " int(kib[int((NR - 1) * i / 10) + 1] / 1024)
        print "memory in MiB, in ten steps:" line
        for (i = int(NR / 3) + 1; i <= int(2 * NR / 3); i++) { middle += kib[i]; m++ }
        for (i = int(2 * NR / 3) + 1; i <= NR; i++) { last += kib[i]; l++ }
        if (!m || !l) { print "the run was too short to compare the memory"; exit 1 }
        middle /= m
        last /= l
        most = middle * percent / 100
        if (most < slack * 1024) most = slack * 1024
        printf "growth from the second to the last third: %.1f MiB, %.1f %%; at most %.1f MiB are allowed\n", (last - middle) / 1024, (last / middle - 1) * 100, most / 1024
        exit last - middle > most
    }' "$workdir/memory" || failed=1
[ ! -s "$workdir/serve.err" ] || { echo "messages of the server, by number:"; sed 's/[0-9][0-9:.-]*/N/g' "$workdir/serve.err" | sort | uniq -c | sort -rn | head -20; }
exit $failed
