# shellcheck shell=bash
# A measurement is a line of $workdir/lines: case, server, requests per second, µs of the server's processor time
# per request, p50 and p99 in ms, failed requests, MiB read from the disk.

# of_wrk CASE NAME PATH CONNECTIONS [HEADER]: requests one path, or those of the file $PATHS in turn
of_wrk() {
    local label=$1 name=$2 path=$3 connections=$4 header=${5:-"Accept: */*"} before after
    before=$(computed "$name")
    taskset -c 1 wrk -t1 -c"$connections" ${PATHS:+-s benches/serve/paths.lua} -d"${seconds}s" --timeout 30s --latency -H "$header" \
        "$scheme://127.0.0.1:${ports[$name]}/$path" >"$workdir/wrk.out"
    after=$(computed "$name")
    awk -v label="$label" -v name="$name" -v ticks=$((after - before)) -v tick="$tick" '
        function ms(text) { return text ~ /us$/ ? text / 1000 : text ~ /ms$/ ? text + 0 : text * 1000 }
        $1 == "50%" { p50 = ms($2) } $1 == "99%" { p99 = ms($2) }
        /requests in/ { count = $1; time = $4 + 0 }
        /Non-2xx/ { wrong += $NF } /Socket errors/ { gsub(/,/, ""); wrong += $4 + $6 + $8 + $10 }
        END { if (count) print label, name, count / time, ticks / tick / count * 1e6, p50, p99, wrong + 0, 0 }' \
        "$workdir/wrk.out" >>"$workdir/lines"
}

# of_load CASE NAME ARGUMENTS: measures with `laio load`; prints two lines if CASE contains two names, for
# repeated and for first requests. Checks each response's size.
of_load() {
    local label=$1 name=$2 before after disk
    shift 2
    before=$(computed "$name") disk=$(read_so_far)
    # Failed requests are shown in the table.
    taskset -c 1 "$laio" load "$scheme://127.0.0.1:${ports[$name]}/" --no-verify --json "$workdir/load.json" "$@" >/dev/null \
        2>"$workdir/load.err" || [ -s "$workdir/load.json" ] || { cat "$workdir/load.err" >&2; exit 1; }
    after=$(computed "$name") disk=$(($(read_so_far) - disk))
    awk -v labels="$label" -v name="$name" -v ticks=$((after - before)) -v tick="$tick" -v disk="$disk" '
        function line(label, times, count) {
            if (count > 0) print label, name, count / value["", "seconds"], ticks / tick / all * 1e6,
                value[times, "p50"] + 0, value[times, "p99"] + 0, wrong + 0, disk
        }
        { sub(/,$/, ""); at = match($0, /": /); key = substr($0, 1, at - 1); gsub(/[ "]/, "", key); text = substr($0, at + 3) }
        at && text == "{" { part = key; next }
        /^  }/ { part = ""; next }
        at && text != "[" && text != "{}" && !listed { if (part == "errors") wrong += text; else value[part, key] = text }
        text == "[" { listed = 1 }
        END {
            all = value["", "requests"]
            if (split(labels, label, " ") == 1) line(labels, ("response", "p50") in value ? "response" : "service", all)
            else { line(label[1], "again", value["again", "count"]); line(label[2], "first", value["first", "count"]) }
            if (!all) { print "no request of " name " was answered" >"/dev/stderr" }
        }' "$workdir/load.json" >>"$workdir/lines"
    rm "$workdir/load.json"
}

# Prints the medians of all rounds since the last report, by case and server.
report() {
    [ -s "$workdir/lines" ] || return 0
    printf '%-14s %-14s %10s %10s %9s %9s %7s %9s\n' case server requests/s cpu-us/req p50-ms p99-ms errors disk-MiB
    [ -z "${RESULTS:-}" ] || tr ' ' '\t' <"$workdir/lines" >>"$RESULTS"
    awk '
        function median(list,   n, i, j, t, v) {
            n = split(list, v, " ")
            for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] + 0 < v[j-1] + 0; j--) { t = v[j]; v[j] = v[j-1]; v[j-1] = t }
            return n % 2 ? v[(n+1)/2] : (v[n/2] + v[n/2+1]) / 2
        }
        { key = $1 " " $2; if (!(key in seen)) { seen[key] = 1; order[++keys] = key }
          for (i = 3; i <= 8; i++) all[key, i] = all[key, i] " " $i
          wrong[key] += $7 }
        END { for (k = 1; k <= keys; k++) { key = order[k]; split(key, part, " ")
          printf "%-14s %-14s %10.0f %10.2f %9.2f %9.2f %7d %9.0f\n", part[1], part[2], median(all[key, 3]), median(all[key, 4]),
              median(all[key, 5]), median(all[key, 6]), wrong[key], median(all[key, 8]) } }' "$workdir/lines" |
        sort -s -k1,1
    : >"$workdir/lines"
}
