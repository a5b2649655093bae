//! The upstreams of a site, grouped by prefix, shared by all workers.

use super::health::Health;
use super::route::Route;
use super::target::{PrefixSettings, Target};
use laio_http::{Mount, RequestPath};
use laio_serve_base::options::{
    Balance, ForPrefix, HealthPath, Protocol, Upstream, UpstreamAddress, UpstreamLimits, Upstreams,
};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The groups of a site, the longest prefixes first.
#[derive(Default)]
pub struct Groups(Vec<Arc<Group>>);

/// The upstreams of one prefix: at least one.
pub struct Group {
    targets: Vec<Arc<Target>>,
    balance: Balance,
}

/// The health of each upstream, by its name and the path of its checks: two prefixes, or two sites, with
/// the same upstream have one judgement of it.
#[derive(Default)]
pub struct Healths(HashMap<(String, Option<String>), Arc<Health>>);

/// The host and the canonical prefix of upstreams.
type Place = (Option<String>, String);

impl Groups {
    /// Compiles the upstreams of a site, which are a part of those in `settings`.
    ///
    /// # Errors
    /// When a name cannot be looked up, or the upstreams of a prefix cannot form a group.
    pub fn new(
        upstreams: &[&Upstream],
        settings: &Upstreams,
        healths: &mut Healths,
    ) -> io::Result<Groups> {
        let mut places: BTreeMap<Place, Vec<&Upstream>> = BTreeMap::new();
        for upstream in upstreams {
            places.entry(place(upstream)?).or_default().push(upstream);
        }
        let mut groups = Vec::new();
        for ((host, prefix), members) in &places {
            let same = places.keys().filter(|(_, other)| other == prefix);
            match (host, same.filter(|(host, _)| host.is_some()).count()) {
                // The upstreams of a host replace those of every host.
                (None, 1..) => continue,
                (Some(_), 2..) => {
                    return Err(wrong(format!(
                        "two hosts of one site have upstreams for {prefix}; give each host a site of its own"
                    )));
                }
                _ => groups.push((
                    prefix,
                    Group::new(host.as_deref(), prefix, members, settings, healths)?,
                )),
            }
        }
        groups.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Ok(Groups(
            groups
                .into_iter()
                .map(|(_, group)| Arc::new(group))
                .collect(),
        ))
    }

    /// Returns routes for one worker.
    pub fn routes(&self) -> Vec<Route> {
        self.0.iter().map(Route::to).collect()
    }

    /// Returns all groups.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.0.iter()
    }
}

impl Group {
    fn new(
        host: Option<&str>,
        prefix: &str,
        members: &[&Upstream],
        settings: &Upstreams,
        healths: &mut Healths,
    ) -> io::Result<Group> {
        check(prefix, members)?;
        let mut check = setting(&settings.health_paths, host, prefix);
        let mut proxy_protocol = setting(&settings.proxy_protocol, host, prefix);
        if members[0].protocol == Protocol::FastCgi {
            only_for_http("--health-path", &mut check, prefix)?;
            only_for_http("--proxy-protocol", &mut proxy_protocol, prefix)?;
        }
        let own = PrefixSettings {
            ca: settings.ca.as_deref(),
            check: check.map(|check| &check.value),
            proxy_protocol: proxy_protocol.map(|version| version.value),
        };
        let target = |member: &&Upstream| Target::new(member, own, healths).map(Arc::new);
        Ok(Group {
            targets: members.iter().map(target).collect::<io::Result<_>>()?,
            balance: setting(&settings.balance, host, prefix)
                .map(|balance| balance.value.clone())
                .unwrap_or_default(),
        })
    }

    /// Returns the program that executes the scripts of a site.
    pub fn of_php(address: &UpstreamAddress, healths: &mut Healths) -> io::Result<Group> {
        Ok(Group {
            targets: vec![Arc::new(Target::of_php(address, healths)?)],
            balance: Balance::default(),
        })
    }

    /// Returns the auth servers of one glob.
    pub fn of_auth_servers(
        servers: &[&Upstream],
        ca: Option<&Path>,
        healths: &mut Healths,
    ) -> io::Result<Group> {
        check("--auth-request", servers)?;
        let own = PrefixSettings {
            ca,
            ..PrefixSettings::default()
        };
        let target = |server: &&Upstream| Target::new(server, own, healths).map(Arc::new);
        Ok(Group {
            targets: servers.iter().map(target).collect::<io::Result<_>>()?,
            balance: Balance::default(),
        })
    }

    /// Returns the servers of the group.
    pub fn targets(&self) -> &[Arc<Target>] {
        &self.targets
    }

    /// Returns how requests are shared among the servers.
    pub fn balance(&self) -> &Balance {
        &self.balance
    }

    /// Returns the prefix, which all upstreams of the group have.
    pub fn mount(&self) -> &Mount {
        &self.targets[0].mount
    }

    /// Returns the protocol, which all upstreams of the group have.
    pub fn protocol(&self) -> &Protocol {
        &self.targets[0].protocol
    }

    /// Returns the name in log messages for what concerns no single upstream.
    pub fn name(&self) -> &str {
        &self.targets[0].name
    }
}

impl Healths {
    pub(super) fn of(&mut self, name: &str, path: Option<&HealthPath>) -> Arc<Health> {
        let key = (name.to_owned(), path.map(|path| path.0.clone()));
        let health = self.0.entry(key);
        health
            .or_insert_with(|| Arc::new(Health::new(name)))
            .clone()
    }
}

/// Returns the route for a path.
pub fn route<'r>(routes: &'r [Route], path: &RequestPath<'_>) -> Option<&'r Route> {
    routes
        .iter()
        .find(|route| route.group.mount().rest(path).is_some())
}

fn place(upstream: &Upstream) -> io::Result<Place> {
    let host = upstream.host.as_ref().map(|host| host.to_ascii_lowercase());
    Ok((host, canonical(&upstream.prefix)?))
}

fn canonical(prefix: &str) -> io::Result<String> {
    let mount = Mount::new(prefix, None).map_err(|error| wrong(error.to_string()))?;
    Ok(mount.prefix().to_owned())
}

fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// Checks that upstreams can share the requests of a prefix.
fn check(prefix: &str, members: &[&Upstream]) -> io::Result<()> {
    let most = UpstreamLimits::MEMBERS;
    if members.len() > most {
        return Err(wrong(format!(
            "there are more than {most} upstreams for {prefix}"
        )));
    }
    let kind = |upstream: &Upstream| {
        let protocol = std::mem::discriminant(&upstream.protocol);
        (protocol, upstream.tls.is_some())
    };
    for (number, member) in members.iter().enumerate() {
        if kind(member) != kind(members[0]) {
            return Err(wrong(format!(
                "the upstreams for {prefix} use different protocols: write http, https, h2c, h2 or FastCGI for all of them"
            )));
        }
        if members[..number]
            .iter()
            .any(|other| other.address == member.address)
        {
            return Err(wrong(format!(
                "the upstream {} is there twice for {prefix}; write ,weight=2 to give it more requests",
                member.address
            )));
        }
    }
    Ok(())
}

/// Checks that the prefixes of settings are those of upstreams, of any site, because a host inherits the
/// settings of the others.
///
/// # Errors
/// Names the flag and the prefix.
pub fn check_prefixes(sites: &[&Upstreams]) -> io::Result<()> {
    let mut places = Vec::new();
    for upstream in sites.iter().flat_map(|site| site.all()) {
        places.push(place(upstream)?);
    }
    for site in sites {
        check_places("--balance", &site.balance, &places)?;
        check_places("--health-path", &site.health_paths, &places)?;
        check_places("--proxy-protocol", &site.proxy_protocol, &places)?;
    }
    Ok(())
}

fn check_places<T>(flag: &str, settings: &[ForPrefix<T>], places: &[Place]) -> io::Result<()> {
    for setting in settings {
        let Some(prefix) = &setting.prefix else {
            continue;
        };
        let prefix = canonical(prefix)?;
        let is_here = |(host, own): &Place| *own == prefix && is_for(setting, host.as_deref());
        if !places.iter().any(is_here) {
            return Err(wrong(format!(
                "{flag} is for {prefix}, but no upstream has this prefix"
            )));
        }
    }
    Ok(())
}

/// Drops a setting that FastCGI programs do not have, or refuses it if it is for their prefix.
fn only_for_http<T>(
    flag: &str,
    setting: &mut Option<&ForPrefix<T>>,
    prefix: &str,
) -> io::Result<()> {
    match setting.take() {
        Some(own) if own.prefix.is_some() => Err(wrong(format!(
            "{flag} is for HTTP upstreams, but the upstreams of {prefix} use FastCGI"
        ))),
        _ => Ok(()),
    }
}

/// Whether a setting applies to the upstreams of a host.
fn is_for<T>(setting: &ForPrefix<T>, host: Option<&str>) -> bool {
    let Some(own) = &setting.host else {
        return true;
    };
    host.is_some_and(|host| host.eq_ignore_ascii_case(own))
}

/// Returns the setting for a prefix: the last of the most specific ones.
fn setting<'s, T>(
    settings: &'s [ForPrefix<T>],
    host: Option<&str>,
    prefix: &str,
) -> Option<&'s ForPrefix<T>> {
    let fits = |setting: &&ForPrefix<T>| {
        let own = setting.prefix.as_ref().and_then(|own| canonical(own).ok());
        own.is_none_or(|own| own == prefix) && is_for(setting, host)
    };
    let specific = |setting: &&ForPrefix<T>| (setting.prefix.is_some(), setting.host.is_some());
    settings.iter().filter(fits).max_by_key(specific)
}

#[cfg(test)]
mod tests {
    use super::*;
    use laio_serve_base::options::HashKey;

    fn groups(upstreams: &[Upstream], change: impl FnOnce(&mut Upstreams)) -> io::Result<Groups> {
        let mut settings = Upstreams::from(upstreams.to_vec());
        change(&mut settings);
        let all: Vec<_> = upstreams.iter().collect();
        Groups::new(&all, &settings, &mut Healths::default())
    }

    fn upstream(text: &str) -> Upstream {
        Upstream::http(text).unwrap()
    }

    #[test]
    fn the_longest_prefix_wins() {
        let upstreams = [
            upstream("/api=http://127.0.0.1:1"),
            upstream("/api/new/=http://127.0.0.1:2/v2/"),
            upstream("/x=http+unix:/s:/"),
        ];
        let groups = groups(&upstreams, |_| {}).unwrap();
        let routes = groups.routes();
        let there = |path: &str| {
            let path = RequestPath::new(path).ok()?;
            let route = route(&routes, &path)?;
            let target = &route.group.targets()[0];
            let to = target.mount.upstream_path(&path).into_owned();
            Some((target.name.clone(), to))
        };
        let at = |name: &str, path: &str| Some((format!("http://{name}"), path.to_owned()));
        assert_eq!(there("/api"), at("127.0.0.1:1", "/api"));
        assert_eq!(there("/api/%61"), at("127.0.0.1:1", "/api/a"));
        assert_eq!(there("//api"), at("127.0.0.1:1", "/api"));
        assert_eq!(there("/api/new"), at("127.0.0.1:1", "/api/new"));
        assert_eq!(there("/api/new/"), at("127.0.0.1:2", "/v2/"));
        assert_eq!(there("/api/new/a/b"), at("127.0.0.1:2", "/v2/a/b"));
        assert_eq!(there("/x"), at("unix:/s", "/"));
        assert_eq!(there("/x/"), at("unix:/s", "/"));
        assert_eq!(there("/x/y"), at("unix:/s", "/y"));
        for other in ["/apix", "/", "/api/../y", "/x%2F", "*", "/%zz"] {
            assert_eq!(there(other), None, "{other}");
        }
    }

    #[test]
    fn upstreams_of_a_prefix_form_a_group() {
        let upstreams = [
            upstream("/a=http://127.0.0.1:1"),
            upstream("/%61=http://127.0.0.1:2,weight=3"),
            upstream("/b=http://127.0.0.1:1"),
            upstream("A.b/b=http://127.0.0.1:3"),
        ];
        let groups = groups(&upstreams, |settings| {
            settings.balance = vec![
                "/b=hash=uri".parse().unwrap(),
                "round-robin".parse().unwrap(),
            ];
        });
        let groups = groups.unwrap().0;
        let found: Vec<Vec<(&str, u32)>> = groups
            .iter()
            .map(|group| {
                group
                    .targets
                    .iter()
                    .map(|it| (&*it.name, it.weight))
                    .collect()
            })
            .collect();
        // The upstream of the host replaces that of every host.
        assert_eq!(
            found,
            [
                vec![("http://127.0.0.1:1", 1), ("http://127.0.0.1:2", 3)],
                vec![("http://127.0.0.1:3", 1)]
            ]
        );
        assert_eq!(groups[0].balance, Balance::RoundRobin);
        assert_eq!(groups[1].balance, Balance::Hash(HashKey::Uri));
    }

    #[test]
    fn what_is_no_group() {
        let one = || upstream("/a=http://127.0.0.1:1");
        let error = |second: Upstream| {
            let error = groups(&[one(), second], |_| {}).map(drop).unwrap_err();
            error.to_string()
        };
        assert!(error(one()).contains("twice for /a"));
        assert!(error(upstream("/a=https://127.0.0.1:2")).contains("different protocols"));
        let program = Upstream::fastcgi("/a=127.0.0.1:2").unwrap();
        assert!(error(program).contains("different protocols"));
        let many: Vec<_> = (1..=65)
            .map(|port| upstream(&format!("/a=http://127.0.0.1:{port}")))
            .collect();
        assert!(groups(&many, |_| {}).is_err() && groups(&many[1..], |_| {}).is_ok());
        let hosts = ["x.y/a=http://127.0.0.1:1", "z/a=http://127.0.0.1:2"].map(upstream);
        assert!(groups(&hosts, |_| {}).is_err());
    }

    #[test]
    fn settings_for_prefixes_that_are_not_there() {
        let upstreams = Upstreams::from(vec![upstream("b.c/a=http://127.0.0.1:1")]);
        let misplaced = |text: &str| {
            let inherits = Upstreams {
                balance: vec![text.parse().unwrap()],
                ..Upstreams::default()
            };
            check_prefixes(&[&upstreams, &inherits]).is_err()
        };
        assert!(misplaced("/b=round-robin") && misplaced("c.d/a=round-robin"));
        assert!(!misplaced("/a=round-robin") && !misplaced("B.c/a=round-robin"));
        let program = Upstream::fastcgi("/a=127.0.0.1:2").unwrap();
        let checked = |text: &str| {
            groups(std::slice::from_ref(&program), |settings| {
                settings.health_paths = vec![text.parse().unwrap()];
            })
        };
        assert!(checked("/a=/up").is_err() && checked("/up").is_ok());
    }
}
