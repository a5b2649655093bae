//! Which clients a site lets in, by their network.

use super::auth::{Resource, is_guarded};
use laio_http::Guard;
use laio_serve_base::clients::Client;
use laio_serve_base::clients::networks::Networks;
use laio_serve_base::options::{Access, NetworkRule};
use std::io;

/// The rules of a site.
pub struct NetworkAccess {
    everywhere: Option<Rules>,
    places: Vec<(Guard, Rules)>,
}

/// Rules for the same paths.
struct Rules {
    /// Whether clients of these networks are let in.
    networks: Networks<bool>,
    /// Whether clients of other networks are let in.
    others: bool,
}

impl NetworkAccess {
    /// # Errors
    /// When a glob is malformed.
    pub(crate) fn new(access: &Access) -> io::Result<NetworkAccess> {
        let rules = || access.allow.iter().chain(&access.deny);
        let mut globs: Vec<&str> = rules().filter_map(|rule| rule.glob.as_deref()).collect();
        globs.sort_unstable();
        globs.dedup();
        let place = |glob: &str| {
            let guard = Guard::new([glob]);
            let guard = guard.map_err(|bad| io::Error::new(io::ErrorKind::InvalidInput, bad))?;
            Ok((guard, Rules::from_access(access, Some(glob))))
        };
        Ok(NetworkAccess {
            everywhere: rules()
                .any(|rule| rule.glob.is_none())
                .then(|| Rules::from_access(access, None)),
            places: globs.into_iter().map(place).collect::<io::Result<_>>()?,
        })
    }

    /// Whether a client is let in to any path.
    pub(crate) fn admits(&self, client: &Client) -> bool {
        let rules = self.everywhere.as_ref();
        rules.is_none_or(|rules| rules.admit(client))
    }

    /// Whether a client is let in to a resource.
    pub fn admits_to(&self, client: &Client, resource: Resource<'_>) -> bool {
        let mut places = self.places.iter();
        places.all(|(guard, rules)| rules.admit(client) || !is_guarded(guard, resource))
    }

    /// Whether it depends on the resource who is let in.
    pub(crate) fn has_places(&self) -> bool {
        !self.places.is_empty()
    }
}

impl Rules {
    fn from_access(access: &Access, glob: Option<&str>) -> Rules {
        let with = |rules: &[NetworkRule], admits| {
            let rules = rules.iter().filter(|rule| rule.glob.as_deref() == glob);
            rules.map(|rule| (rule.network, admits)).collect::<Vec<_>>()
        };
        let allowed = with(&access.allow, true);
        let others = allowed.is_empty();
        let networks = allowed.into_iter().chain(with(&access.deny, false));
        Rules {
            networks: Networks::new(networks),
            others,
        }
    }

    fn admit(&self, client: &Client) -> bool {
        self.networks.of(client.address).unwrap_or(self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laio_http::RequestPath;

    fn access(allow: &[&str], deny: &[&str]) -> NetworkAccess {
        let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        NetworkAccess::new(&Access {
            allow: rules(allow),
            deny: rules(deny),
            ..Access::default()
        })
        .unwrap()
    }

    fn client(text: &str) -> Client {
        Client::new(text.parse().ok())
    }

    #[test]
    fn rules_without_a_glob() {
        #[rustfmt::skip]
        let cases = [
            (&[][..], &["10.0.0.0/8"][..], &["9.9.9.9", "-"][..], &["10.1.1.1"][..]),
            (&["10.0.0.0/8"], &[], &["10.1.1.1"], &["9.9.9.9", "-"]),
            (&["10.0.0.0/8"], &["10.1.0.0/16"], &["10.2.1.1"], &["10.1.1.1", "::1"]),
            (&["10.1.0.0/16", "::/0", "unix"], &["10.0.0.0/8"], &["10.1.1.1", "-", "9.9.9.9"], &["10.2.1.1"]),
            (&["10.0.0.0/8"], &["10.0.0.0/8"], &[], &["10.1.1.1"]),
        ];
        for (allow, deny, inside, outside) in cases {
            let access = access(allow, deny);
            for text in inside {
                assert!(access.admits(&client(text)), "{allow:?} {deny:?} {text}");
            }
            for text in outside {
                assert!(!access.admits(&client(text)), "{allow:?} {deny:?} {text}");
            }
        }
        assert!(access(&[], &[]).admits(&client("1.1.1.1")));
    }

    #[test]
    fn rules_for_paths() {
        let access = access(&["/admin/**=10.0.0.0/8"], &["*.key=0.0.0.0/0"]);
        let admits = |name: &str, path: &str| {
            let path = RequestPath::new(path).unwrap();
            access.admits_to(&client(name), Resource::File(&path))
        };
        assert!(access.admits(&client("9.9.9.9")) && access.has_places());
        assert!(admits("10.1.1.1", "/admin/x") && admits("9.9.9.9", "/x"));
        for path in ["/admin", "/%41dmin/x", "/Admin/x"] {
            assert!(!admits("9.9.9.9", path), "{path}");
        }
        assert!(!admits("10.1.1.1", "/admin/a.key") && admits("::1", "/a.key"));
    }

    #[test]
    fn a_rule_for_all_clients() {
        let access = access(&[], &["**/*.{sql,bak}=all"]);
        let path = RequestPath::new("/a/B.SQL").unwrap();
        for name in ["10.1.1.1", "::1", "-"] {
            assert!(
                !access.admits_to(&client(name), Resource::File(&path)),
                "{name}"
            );
        }
    }
}
