//! Directives without a translation: those that need none, and what to do about others.

/// Directives that need no equivalent: the server decides by itself what they set.
const NEEDLESS: &[&str] = &[
    "accept_mutex",
    "aio",
    "autoindex_exact_size",
    "autoindex_localtime",
    "brotli_buffers",
    "brotli_comp_level",
    "brotli_min_length",
    "brotli_types",
    "brotli_window",
    "chunked_transfer_encoding",
    "client_body_buffer_size",
    "client_body_temp_path",
    "client_header_buffer_size",
    "charset",
    "charset_types",
    "daemon",
    "default_type",
    "directio",
    "env",
    "error_log",
    "etag",
    "fastcgi_buffer_size",
    "fastcgi_buffering",
    "fastcgi_buffers",
    "fastcgi_busy_buffers_size",
    "fastcgi_connect_timeout",
    "fastcgi_index",
    "fastcgi_intercept_errors",
    "fastcgi_keep_conn",
    "fastcgi_read_timeout",
    "fastcgi_send_timeout",
    "fastcgi_split_path_info",
    "fastcgi_temp_file_write_size",
    "gunzip",
    "gzip_buffers",
    "gzip_comp_level",
    "gzip_disable",
    "gzip_http_version",
    "gzip_min_length",
    "gzip_proxied",
    "gzip_types",
    "gzip_vary",
    "http2_max_concurrent_streams",
    "if_modified_since",
    "large_client_header_buffers",
    "load_module",
    "log_not_found",
    "master_process",
    "max_ranges",
    "merge_slashes",
    "multi_accept",
    "open_file_cache",
    "open_file_cache_errors",
    "open_file_cache_min_uses",
    "open_file_cache_valid",
    "open_log_file_cache",
    "output_buffers",
    "pcre_jit",
    "pid",
    "port_in_redirect",
    "postpone_output",
    "proxy_buffer_size",
    "proxy_buffering",
    "proxy_buffers",
    "proxy_busy_buffers_size",
    "proxy_http_version",
    "proxy_max_temp_file_size",
    "proxy_request_buffering",
    "proxy_send_timeout",
    "proxy_socket_keepalive",
    "proxy_ssl_protocols",
    "proxy_ssl_server_name",
    "proxy_ssl_session_reuse",
    "proxy_ssl_verify",
    "proxy_ssl_verify_depth",
    "proxy_temp_file_write_size",
    "read_ahead",
    "recursive_error_pages",
    "reset_timedout_connection",
    "resolver",
    "resolver_timeout",
    "sendfile",
    "sendfile_max_chunk",
    "server_name_in_redirect",
    "server_names_hash_bucket_size",
    "server_names_hash_max_size",
    "source_charset",
    "ssl_buffer_size",
    "ssl_dhparam",
    "ssl_early_data",
    "ssl_ecdh_curve",
    "ssl_prefer_server_ciphers",
    "ssl_session_cache",
    "ssl_session_tickets",
    "ssl_session_timeout",
    "ssl_verify_depth",
    "ssl_stapling_verify",
    "ssl_trusted_certificate",
    "tcp_nodelay",
    "tcp_nopush",
    "thread_pool",
    "types_hash_bucket_size",
    "types_hash_max_size",
    "underscores_in_headers",
    "use",
    "variables_hash_bucket_size",
    "variables_hash_max_size",
    "worker_aio_requests",
    "worker_cpu_affinity",
    "worker_priority",
    "worker_rlimit_nofile",
    "worker_shutdown_timeout",
];

/// What to do about directives without an equivalent.
const ADVICE: &[(&str, &str)] = &[
    (
        "allow",
        "laio would answer everyone: use a firewall, or see `laio serve --help` for rules of client addresses",
    ),
    (
        "deny",
        "laio would answer everyone: use a firewall, or see `laio serve --help` for rules of client addresses",
    ),
    (
        "alias",
        "laio serves one directory for a site; move the files below the root, or mount them there (mount --bind)",
    ),
    (
        "auth_request",
        "laio would answer everyone: let the upstream check, or use --auth",
    ),
    (
        "dav_methods",
        "laio only reads files; use --proxy to a server for WebDAV",
    ),
    (
        "fastcgi_cache",
        "cache in the program; laio passes each request on",
    ),
    ("geo", "laio has no variables; let the upstream decide"),
    ("grpc_pass", "laio speaks HTTP/1.1 and FastCGI to upstreams"),
    (
        "if",
        "laio has no conditions; write redirects with --redirect, and hosts as [host.NAME]",
    ),
    (
        "internal",
        "laio has no internal locations; --error-page and --try need none",
    ),
    (
        "limit_conn",
        "--max-connections-per-address limits the connections of an address",
    ),
    (
        "limit_conn_zone",
        "--max-connections-per-address limits the connections of an address",
    ),
    (
        "limit_rate",
        "limit the rate in the kernel (tc), or see `laio serve --help`",
    ),
    (
        "limit_req",
        "limit requests in the upstream, or see `laio serve --help`",
    ),
    (
        "limit_req_zone",
        "limit requests in the upstream, or see `laio serve --help`",
    ),
    (
        "log_format",
        "laio writes the formats common, combined, json and logfmt, with --log-fields",
    ),
    ("mail", "laio speaks HTTP only"),
    ("map", "laio has no variables; let the upstream decide"),
    ("mirror", "laio passes a request on to one upstream"),
    ("mp4", "ranges serve seeking in most players"),
    ("perl", "laio runs no code; use --proxy or --fastcgi"),
    (
        "proxy_cache",
        "cache in the upstream; laio passes each request on",
    ),
    (
        "proxy_cache_path",
        "cache in the upstream; laio passes each request on",
    ),
    ("proxy_hide_header", "let the upstream leave the field out"),
    (
        "proxy_pass_header",
        "laio passes all fields on that do not concern the connection",
    ),
    (
        "proxy_cookie_path",
        "let the upstream set its cookies for the outer path",
    ),
    (
        "proxy_redirect",
        "let the upstream know its outer address by X-Forwarded-Host and X-Forwarded-Proto",
    ),
    (
        "real_ip_header",
        "laio logs the address of the connection; --trust-forwarded passes the fields on to upstreams",
    ),
    ("scgi_pass", "laio speaks HTTP/1.1 and FastCGI to upstreams"),
    (
        "set",
        "laio has no variables; write the value where it is used",
    ),
    (
        "set_real_ip_from",
        "laio logs the address of the connection; --trust-forwarded passes the fields on to upstreams",
    ),
    (
        "split_clients",
        "laio has no variables; let the upstream decide",
    ),
    (
        "ssl_ciphers",
        "laio has only suites with forward secrecy; --tls-ciphers names them by their IANA names",
    ),
    (
        "ssl_stapling",
        "put the response beside the certificate: see docs/serve/https.md",
    ),
    ("stream", "laio speaks HTTP only"),
    (
        "stub_status",
        "use --admin ADDRESS:PORT, which has /metrics and a page",
    ),
    ("sub_filter", "laio sends bodies unchanged"),
    (
        "types",
        "laio has a table of types of its own, by extension",
    ),
    ("userid", "let the upstream set cookies"),
    (
        "uwsgi_pass",
        "laio speaks HTTP/1.1 and FastCGI to upstreams: run uwsgi with --http-socket, and use --proxy",
    ),
    (
        "limit_except",
        "laio answers GET, HEAD and OPTIONS for files; an upstream gets every method",
    ),
    (
        "satisfy",
        "laio would answer everyone who has a password: use a firewall for addresses",
    ),
    (
        "secure_link",
        "laio would answer everyone: let the upstream check, and name files in X-Sendfile",
    ),
    (
        "valid_referers",
        "laio would answer everyone: it has no conditions",
    ),
];

/// Whether a directive needs no equivalent.
pub(super) fn is_needless(name: &str) -> bool {
    NEEDLESS.contains(&name)
}

/// Returns what to do about a directive that has no equivalent.
pub(super) fn advice(name: &str) -> &'static str {
    if name.contains("lua") || name.contains("perl") || name.starts_with("js_") {
        return "laio runs no code; use --proxy or --fastcgi";
    }
    let known = ADVICE.iter().find(|(own, _)| *own == name);
    known.map_or("laio has no equivalent", |(_, advice)| advice)
}
