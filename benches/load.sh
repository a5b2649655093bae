#!/usr/bin/env bash
# Compares `laio load` with wrk: the same number of connections, from one processor, to the same server on
# another, in turns.
#
#   benches/load.sh
#
# Environment variables:
#   LAIO         the laio command             (default: target/release/laio, built if missing)
#   SERVER       the server: laio or nginx  (default: laio)
#   SIZES        bytes of the file asked for  (default: "1024 102400")
#   CONNECTIONS  kept open                    (default: 32)
#   DURATION     seconds of each turn         (default: 3)
#   ROUNDS       turns of each                (default: 5)
#
# Prints the requests per second of both in each round, the median of the ratios of rounds, and the client's
# processor time per request. The server has one worker. Needs two processors, wrk and jq.
set -euo pipefail
cd "$(dirname "$0")/.."

laio=${LAIO:-target/release/laio}
server=${SERVER:-laio}
sizes=${SIZES:-1024 102400}
connections=${CONNECTIONS:-32}
seconds=${DURATION:-3}
rounds=${ROUNDS:-5}

for need in wrk jq taskset; do
    command -v "$need" >/dev/null || { echo "$need is not installed: skipping the comparison"; exit 0; }
done
[ "$(nproc)" -ge 2 ] || { echo "one processor only: skipping the comparison"; exit 0; }
if [ -z "${LAIO:-}" ] && [ ! -x "$laio" ]; then
    cargo build --release --locked --quiet --package laio-cli
fi

workdir=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; wait 2>/dev/null; rm -rf "$workdir"' EXIT
mkdir "$workdir/site"
for size in $sizes; do head -c "$size" /dev/urandom >"$workdir/site/$size"; done

start_laio() {
    taskset -c 0 "$laio" serve --workers 1 --listen 127.0.0.1:0 --log off --max-requests 1000000000 "$workdir/site" \
        2>"$workdir/said" &
    pid=$!
    for _ in $(seq 500); do
        url=$(grep -o 'http://[0-9.:]*' "$workdir/said" || true)
        [ -z "$url" ] || return 0
        sleep 0.02
    done
    echo "laio serve does not answer" >&2
    exit 1
}

start_nginx() {
    command -v nginx >/dev/null || { echo "nginx is not installed: skipping the comparison"; exit 0; }
    local port=${PORT:-18321}
    cat >"$workdir/nginx.conf" <<CONF
daemon off; master_process off; worker_processes 1; error_log stderr crit; pid $workdir/pid;
events { worker_connections 1024; }
http {
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000;
  client_body_temp_path $workdir/body; proxy_temp_path $workdir/proxy; fastcgi_temp_path $workdir/fastcgi;
  uwsgi_temp_path $workdir/uwsgi; scgi_temp_path $workdir/scgi;
  server { listen 127.0.0.1:$port; root $workdir/site; }
}
CONF
    taskset -c 0 nginx -p "$workdir" -e stderr -c "$workdir/nginx.conf" &
    pid=$!
    url=http://127.0.0.1:$port
    for _ in $(seq 500); do
        ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || return 0
        sleep 0.02
    done
    echo "nginx does not answer" >&2
    exit 1
}

# of_laio SIZE, of_wrk SIZE: a line "requests/s processor-us"
of_laio() {
    taskset -c 1 "$laio" load "$url/$1" --parallel "$connections" --keep-alive --seconds "$seconds" --json - 2>/dev/null |
        jq -r '"\(.rate) \(.processor * 1e6 / .rate)"'
}
of_wrk() {
    local TIMEFORMAT='%U %S'
    { time taskset -c 1 wrk -t1 -c"$connections" -d"${seconds}s" "$url/$1" >"$workdir/wrk.out"; } 2>"$workdir/wrk.time"
    awk -v times="$(cat "$workdir/wrk.time")" '
        /requests in/ { count = $1; split($0, part, " in "); time = part[2] + 0 }
        END { split(times, used, " "); print count / time, (used[1] + used[2]) * 1e6 / count }' "$workdir/wrk.out"
}

"start_$server"
for size in $sizes; do
    echo "$size bytes, $connections connections, $server serves"
    : >"$workdir/lines"
    for round in $(seq "$rounds"); do
        # The two alternate in going first.
        if [ $((round % 2)) = 0 ]; then
            wrk=$(of_wrk "$size") laio_line=$(of_laio "$size")
        else
            laio_line=$(of_laio "$size") wrk=$(of_wrk "$size")
        fi
        echo "$laio_line $wrk" | tee -a "$workdir/lines" |
            awk '{ printf "  laio load %8.0f/s %6.2f us   wrk %8.0f/s %6.2f us   ratio %.3f\n", $1, $2, $3, $4, $1 / $3 }'
    done
    awk '{ print $1 / $3 }' "$workdir/lines" | sort -n |
        awk '{ all[NR] = $1 } END { printf "  median ratio %.3f\n", NR % 2 ? all[(NR + 1) / 2] : (all[NR / 2] + all[NR / 2 + 1]) / 2 }'
done
