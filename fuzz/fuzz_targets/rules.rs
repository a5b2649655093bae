#![no_main]
//! Fuzzes values of options: what is printed is parsed as the same value.

use laio_serve::{
    AuthRule, AuthServer, Balance, CopiedField, DirectoryUrl, ForPrefix, HealthPath, HttpsName,
    Listen, LogTarget, MessageRule, Network, NetworkRule, ProxyProtocol, RateRule, SpeedRule,
    SyslogAddress, UpstreamAddress,
};
use libfuzzer_sys::fuzz_target;
use std::fmt::Debug;
use std::str::FromStr;

fuzz_target!(|text: &str| {
    printed::<Network>(text);
    printed::<NetworkRule>(text);
    printed::<SpeedRule>(text);
    printed::<Listen>(text);
    printed::<HttpsName>(text);
    printed::<MessageRule>(text);
    if let Ok(rule) = text.parse::<MessageRule>() {
        let _ = rule.check_for_responses();
        let _ = rule.check_for_requests();
    }
    let _ = text.parse::<AuthRule>();
    let _ = text.parse::<AuthServer>();
    let _ = text.parse::<CopiedField>();
    let _ = text.parse::<DirectoryUrl>();
    // It is printed as a target of the access log.
    if let Ok(address) = text.parse::<SyslogAddress>() {
        let printed = address.to_string();
        assert_eq!(printed.parse(), Ok(LogTarget::Syslog(address)), "{printed}");
    }
    printed::<UpstreamAddress>(text);
    printed::<Balance>(text);
    let _ = text.parse::<ForPrefix<Balance>>();
    let _ = text.parse::<ForPrefix<HealthPath>>();
    let _ = text.parse::<ForPrefix<ProxyProtocol>>();
    if let Ok(rule) = text.parse::<RateRule>() {
        assert!(rule.requests > 0 && rule.burst > 0 && !rule.period.is_zero());
    }
});

fn printed<T: FromStr<Err = String> + ToString + PartialEq + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let printed = value.to_string();
        assert_eq!(printed.parse::<T>(), Ok(value), "{printed}");
    }
}
