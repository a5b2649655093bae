#!/usr/bin/env bash
# Compares HTTP/3 of `laio serve` with its own HTTP/2 over TLS, and with HTTP/3 of nginx, in interleaved rounds: what one
# second of the server's processor time answers (/proc), in requests and in MB of content. The server has one
# worker on processor 0, the client (quic-go and net/http, benches/http3/load.go) has the other processors.
#
#   benches/http3.sh
#
# Environment variables:
#   LAIO     the command to measure                          (default: target/release/laio, built if missing)
#   NGINX    a command that starts an nginx with http_v3_module in the foreground, for -c FILE   (default: nginx)
#   ROUNDS   rounds                                          (default: 5)
#   SECONDS_EACH  of each measurement                        (default: 3)
#   TOOLS    where the client is installed, to keep it       (default: a temporary directory)
#   ONLY     measures this one of: laio-h3 laio-h2 nginx-h3 nginx-h2   (default: all)
#
# Needs go and openssl. nginx takes part if it has HTTP/3 (1.25 or later). Prints the median of all rounds, and the
# lowest and the highest value.
set -euo pipefail
cd "$(dirname "$0")/.."

laio=${LAIO:-target/release/laio}
nginx=${NGINX:-nginx}
rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-3}
QUIC_GO=v0.65.0
for needed in go openssl; do
    command -v "$needed" >/dev/null || { echo "$needed is absent: this run is skipped."; exit 0; }
done
if [ -z "${LAIO:-}" ] && [ ! -x "$laio" ]; then
    cargo build --release --locked --quiet --package laio-cli
fi
workdir=$(mktemp -d)
tools=${TOOLS:-$workdir}
declare -A pids=() ports=()
finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$workdir"
}
trap finish EXIT

if [ ! -x "$tools/h3load" ]; then
    mkdir -p "$tools/load"
    cp benches/http3/load.go "$tools/load/main.go"
    (
        cd "$tools/load"
        [ -f go.mod ] || go mod init load 2>/dev/null
        go get "github.com/quic-go/quic-go@$QUIC_GO" 2>/dev/null
        go mod tidy 2>/dev/null
        go build -o "$tools/h3load" .
    )
fi

site=$workdir/site
mkdir "$site"
chmod 755 "$workdir" "$site"
head -c 1024 /dev/urandom >"$site/1K"
head -c 102400 /dev/urandom >"$site/100K"
head -c 10485760 /dev/urandom >"$site/10M"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' -keyout "$workdir/key.pem" -out "$workdir/cert.pem" 2>/dev/null

# start NAME PORT: starts a server and waits until it listens.
start() {
    local name=$1 port=$2
    while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 10)); done
    ports[$name]=$port
    case $name in
    laio)
        taskset -c 0 "$laio" serve "$site" --listen "tls:127.0.0.1:$port" --workers 1 --log off --http3 \
            --max-requests 4000000000 --tls-cert "$workdir/cert.pem" --tls-key "$workdir/key.pem" 2>"$workdir/laio.err" &
        ;;
    nginx)
        # The file system of nginx may be another one, so that the configuration contains what it needs.
        cat >"$workdir/nginx.conf" <<END
worker_processes 1; daemon off; pid $workdir/nginx.pid; error_log $workdir/nginx.err; worker_rlimit_nofile 16000; user root;
events { worker_connections 16000; }
http {
    access_log off; sendfile on; tcp_nopush on; default_type application/octet-stream;
    open_file_cache max=1000 inactive=60s; keepalive_requests 1000000000; keepalive_timeout 300;
    quic_gso on;
    server {
        listen 127.0.0.1:$port quic reuseport; listen 127.0.0.1:$port ssl; http2 on; root $site;
        ssl_certificate $workdir/cert.pem; ssl_certificate_key $workdir/key.pem; ssl_protocols TLSv1.3;
    }
}
END
        taskset -c 0 $nginx -c "$workdir/nginx.conf" -p "$workdir" 2>"$workdir/nginx.out" &
        ;;
    esac
    pids[$name]=$!
    for _ in $(seq 200); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
        kill -0 "${pids[$name]}" 2>/dev/null || break
        sleep 0.05
    done
    cat "$workdir/$name".err "$workdir/$name".out 2>/dev/null || true
    return 1
}

# Processor time of a server so far, in ticks: of the process and its children.
computed() {
    local pid=${pids[$1]} sum=0 own stat
    for own in "$pid" $(pgrep -P "$pid"); do
        stat=$(sed 's/.*) //' "/proc/$own/stat")
        # shellcheck disable=SC2086
        set -- $stat
        sum=$((sum + ${12} + ${13}))
    done
    echo "$sum"
}

start laio 18443
contestants=(laio-h3 laio-h2)
if $nginx -V 2>&1 | grep -q http_v3_module; then
    start nginx 18444
    contestants+=(nginx-h3 nginx-h2)
else
    echo "nginx without HTTP/3: left out"
fi
[ -z "${ONLY:-}" ] || contestants=("$ONLY")

measure() {
    local contestant=$1 file=$2 connections=$3 streams=$4 name version before after result
    name=${contestant%-*} version=${contestant#*-h}
    before=$(computed "$name")
    result=$(taskset -c "1-$(($(nproc) - 1))" "$tools/h3load" -http "$version" -connections "$connections" -streams "$streams" \
        -time "${seconds}s" "https://127.0.0.1:${ports[$name]}/$file")
    after=$(computed "$name")
    echo "$file $contestant $result $((after - before)) $seconds" >>"$workdir/lines"
}

export QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING=true
for round in $(seq "$rounds"); do
    for contestant in "${contestants[@]}"; do
        measure "$contestant" 1K 4 16
        measure "$contestant" 100K 4 4
        measure "$contestant" 10M 2 2
    done
done
echo "$rounds rounds of $seconds s; per second of the server's processor time: median (lowest to highest)"
printf '%-5s %-9s %28s %24s %10s %9s\n' file server requests MB "MB/s" "server's"
awk -v tick="$(getconf CLK_TCK)" '
    function sorted(list, v,   n, i, j, t) {
        n = split(list, v, " ")
        for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] + 0 < v[j-1] + 0; j--) { t = v[j]; v[j] = v[j-1]; v[j-1] = t }
        return n
    }
    function spread(list, form,   v, n) {
        n = sorted(list, v)
        return sprintf(form " (" form " to " form ")", n % 2 ? v[(n+1)/2] : (v[n/2] + v[n/2+1]) / 2, v[1], v[n])
    }
    function median(list,   v, n) { n = sorted(list, v); return n % 2 ? v[(n+1)/2] : (v[n/2] + v[n/2+1]) / 2 }
    { key = $1 " " $2; if (!(key in seen)) { seen[key]; order[++keys] = key }
      used = $5 / tick; if (used == 0) next
      requests[key] = requests[key] " " $3 / used; bytes[key] = bytes[key] " " $4 / used / 1e6
      rate[key] = rate[key] " " $4 / $6 / 1e6; busy[key] = busy[key] " " 100 * used / $6 }
    END { for (k = 1; k <= keys; k++) { key = order[k]; split(key, part, " ")
        printf "%-5s %-9s %28s %24s %10.1f %7.0f %%\n", part[1], part[2], spread(requests[key], "%.0f"), spread(bytes[key], "%.1f"),
            median(rate[key]), median(busy[key]) } }' "$workdir/lines" | sort -s -k1,1
