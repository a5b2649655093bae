//! The upstreams of a prefix in one worker, and the choice of one for a request.

use super::balancer::{Balancer, Choice};
use super::error::UpstreamError;
use super::group::Group;
use super::group_limits::GroupLimits;
use super::health;
use super::http2::Http2Connections;
use super::link::{Deadline, Pool};
use super::target::Target;
use laio_serve_base::observe::upstreams;
use laio_serve_base::options::{Balance, UpstreamLimits};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The upstreams of a prefix in one worker.
pub struct Route {
    /// The group of servers.
    pub group: Arc<Group>,
    members: Vec<Rc<Member>>,
    /// The limits that a worker applies to the group.
    pub limits: Rc<GroupLimits>,
    balancer: Balancer,
}

/// An upstream in one worker, with its connections.
pub struct Member {
    /// The server.
    pub target: Arc<Target>,
    /// Connections of HTTP/1.1 and FastCGI.
    pub pool: Rc<Pool>,
    /// Connections of HTTP/2.
    pub http2: Rc<Http2Connections>,
    in_flight: Cell<usize>,
    /// Whether failures lead to another upstream.
    has_others: bool,
}

/// The upstreams that a request was given to, as a bit for each.
#[derive(Clone, Copy, Default)]
pub struct Tried(u64);

impl Tried {
    fn has(self, index: usize) -> bool {
        self.0 & (1 << index) != 0
    }

    fn add(&mut self, index: usize) {
        self.0 |= 1 << index; // at most UpstreamLimits::MEMBERS, 64
    }

    /// Returns how many there are.
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }
}

impl Route {
    /// Returns the route of a worker to a group.
    pub fn to(group: &Arc<Group>) -> Route {
        let targets = group.targets();
        let member = |target: &Arc<Target>| {
            Rc::new(Member {
                target: target.clone(),
                pool: Rc::default(),
                http2: Rc::default(),
                in_flight: Cell::new(0),
                has_others: targets.len() > 1,
            })
        };
        Route {
            members: targets.iter().map(member).collect(),
            limits: Rc::default(),
            balancer: Balancer::new(group.balance(), targets.len()),
            group: group.clone(),
        }
    }

    /// Chooses an upstream that was not tried yet, and adds it to those. If all others are left out, it is
    /// one of them: a wrong judgement costs an error less than a refusal would.
    pub fn choose(
        &self,
        tried: &mut Tried,
        key: Option<u64>,
        limits: &UpstreamLimits,
    ) -> Option<&Rc<Member>> {
        let index = match &*self.members {
            [_] => (tried.count() == 0).then_some(0),
            _ => self.choose_of_several(*tried, key, limits),
        }?;
        tried.add(index);
        Some(&self.members[index])
    }

    fn choose_of_several(
        &self,
        tried: Tried,
        key: Option<u64>,
        limits: &UpstreamLimits,
    ) -> Option<usize> {
        let now = health::now();
        let by_hash = key.is_some() && matches!(self.group.balance(), Balance::Hash(_));
        let choice = |(index, _): (usize, &Rc<Member>)| {
            let member = &*self.members[index];
            let target = &*member.target;
            Choice {
                index,
                name: &target.name,
                // A hash moves no keys while an upstream starts slowly.
                weight: if by_hash {
                    f64::from(target.weight)
                } else {
                    target.health.weight(target.weight, now, limits)
                },
                in_flight: member.in_flight.get(),
            }
        };
        let members = || {
            let members = self.members.iter().enumerate();
            members.filter(move |(index, _)| !tried.has(*index))
        };
        let mut on_trial = Tried::default();
        if !by_hash {
            for (index, member) in members() {
                let health = &member.target.health;
                if health.is_due(now) && health.try_again(now, limits) {
                    return Some(index);
                }
            }
        }
        loop {
            let usable = members().filter(|(index, member)| {
                let health = &member.target.health;
                health.is_in_use() || by_hash && health.is_due(now) && !on_trial.has(*index)
            });
            let Some(index) = self.balancer.choose(usable.map(choice), key) else {
                let index = self.balancer.choose(members().map(choice), key)?;
                self.members[index].target.health.try_anyway();
                return Some(index);
            };
            let health = &self.members[index].target.health;
            if health.is_in_use() || health.try_again(now, limits) {
                return Some(index);
            }
            on_trial.add(index);
        }
    }
}

impl Member {
    /// Counts a request until the result is dropped.
    pub fn begin(self: &Rc<Member>) -> InFlight {
        self.in_flight.set(self.in_flight.get() + 1);
        upstreams::asked(&self.target.name);
        InFlight(self.clone())
    }

    /// Notes that the head of a response has arrived.
    pub fn succeeded(&self) {
        if self.has_others {
            self.target.health.succeeded(health::now());
        }
    }

    /// Notes an error, if it is the upstream's: not the client's, not a limit of this server, and not
    /// the end of the time for the whole exchange.
    pub fn failed(&self, error: &UpstreamError, deadline: Deadline, limits: &UpstreamLimits) {
        if !error.is_of_upstream() || deadline.is_over() {
            return;
        }
        upstreams::failed(&self.target.name);
        if self.has_others {
            let health = &self.target.health;
            health.failed(health::now(), limits, &error.why);
        }
    }
}

/// A request in flight.
pub struct InFlight(Rc<Member>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.set(self.0.in_flight.get() - 1);
        upstreams::ended(&self.0.target.name);
    }
}
