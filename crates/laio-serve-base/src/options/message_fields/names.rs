//! The fields that a rule may change.

use super::{FieldAction, MessageRule};

/// Fields that frame a message or belong to one connection.
const FRAMING: [&str; 10] = [
    "Connection",
    "Content-Length",
    "HTTP2-Settings",
    "Keep-Alive",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
    "Expect",
];

/// Fields that say how the bytes of a body are read.
const OF_THE_BODY: [&str; 4] = [
    "Accept-Ranges",
    "Content-Encoding",
    "Content-Range",
    "Content-Type",
];

/// Fields that responses of all kinds have, beside those of the file.
const OF_ALL_RESPONSES: [&str; 4] = ["Server", "Vary", "Strict-Transport-Security", "Alt-Svc"];

/// Whether another part of the server than the file may write a field of a response.
pub fn is_of_all_responses(name: &str) -> bool {
    is_one_of(name, &OF_ALL_RESPONSES)
        || name
            .get(..15)
            .is_some_and(|start| start.eq_ignore_ascii_case("Access-Control-"))
}

/// Checks the field of a rule for responses. The error says why it cannot be changed.
pub(super) fn check_response(rule: &MessageRule) -> Result<(), String> {
    check(rule)?;
    let is = |names: &[&str]| is_one_of(&rule.name, names);
    let removes = rule.action == FieldAction::Remove;
    let why = if is(&OF_THE_BODY) {
        "it says how the bytes of the body are read, which only their source knows"
    } else if is(&["Date"]) {
        "the server writes the Date of each response, and caches compute its age from it"
    } else if is(&["Vary"]) && rule.action != FieldAction::Add {
        "caches would answer with the wrong response; a rule may add another Vary"
    } else if is(&["Location"]) {
        "--redirect and the upstream decide where a redirect leads"
    } else if is(&["ETag", "Last-Modified"]) && !removes {
        "it belongs to the version of the file or of the upstream's response; a rule may remove it"
    } else if is(&["Strict-Transport-Security"]) && !removes {
        "--hsts sets it, and only over TLS"
    } else {
        return Ok(());
    };
    Err(why.to_owned())
}

/// Checks the field of a rule for requests.
pub(super) fn check_request(rule: &MessageRule) -> Result<(), String> {
    check(rule)?;
    let conditions = &rule.conditions;
    if !(conditions.statuses.is_empty() && conditions.media_types.is_empty()) {
        return Err(
            "a request has no status and no response yet: use path, ext and method".to_owned(),
        );
    }
    let is = |names: &[&str]| is_one_of(&rule.name, names);
    let removes = rule.action == FieldAction::Remove;
    let conditional = rule
        .name
        .get(..3)
        .is_some_and(|start| start.eq_ignore_ascii_case("If-"));
    let why = if is(&["Host"]) && rule.action != FieldAction::Set {
        "each request has exactly one; a rule may set it"
    } else if is(&["Via"]) {
        "the server detects loops by it"
    } else if is(&["Proxy"]) {
        "programs would read it as the variable HTTP_PROXY (CVE-2016-5385)"
    } else if is(&["Content-Encoding"]) {
        "it says how the bytes of the body are read, which only the client knows"
    } else if (conditional || is(&["Range"])) && !removes {
        "the client would get a part of a response, or a 304, that it did not ask for; a rule may remove it"
    } else {
        return Ok(());
    };
    Err(why.to_owned())
}

/// Checks what holds for messages of both directions.
fn check(rule: &MessageRule) -> Result<(), String> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let why = if rule.name.is_empty() || !rule.name.bytes().all(token) {
        "that is not a field name"
    } else if is_one_of(&rule.name, &FRAMING) {
        "the server writes this field itself, because it frames the message or belongs to one connection"
    } else if rule
        .value
        .bytes()
        .any(|byte| byte.is_ascii_control() && byte != b'\t')
    {
        "the value contains a control character"
    } else {
        return Ok(());
    };
    Err(why.to_owned())
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|own| name.eq_ignore_ascii_case(own))
}
