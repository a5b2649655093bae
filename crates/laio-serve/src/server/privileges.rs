//! Dropping privileges once the sockets are bound.

use laio_serve_base::options::Safety;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist, setgroups, setresgid, setresuid};
use std::ffi::CString;
use std::io;

/// Switches the whole process to the configured user and group permanently, with the user's
/// supplementary groups, and sets `no_new_privs`.
///
/// # Errors
/// Names the user or group that is unknown or cannot be used.
pub(crate) fn drop_to(safety: &Safety) -> io::Result<()> {
    if safety.user.is_none() && safety.group.is_none() {
        return Ok(());
    }
    let (user, group) = find(safety)?;
    let become_them = || -> nix::Result<()> {
        if let Some(group) = group {
            let groups = match &user {
                Some(user) => getgrouplist(&user.name, group)?,
                None => vec![group],
            };
            setgroups(&groups)?;
            setresgid(group, group, group)?;
        }
        if let Some(user) = &user {
            setresuid(user.uid, user.uid, user.uid)?;
        }
        Ok(())
    };
    become_them().map_err(|errno| {
        let who = safety.user.as_ref().or(safety.group.as_ref());
        let who = who.map_or("", String::as_str);
        let hint = match errno {
            nix::Error::EPERM => "; this needs root, or CAP_SETUID and CAP_SETGID",
            _ => "",
        };
        let text = format!("cannot switch to {who}: {}{hint}", errno.desc());
        io::Error::new(io::Error::from(errno).kind(), text)
    })?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

/// Returns the user and the group that files of the server will belong to, if it switches to another user.
///
/// # Errors
/// Names the user or group that is unknown.
pub(crate) fn owner(safety: &Safety) -> io::Result<Option<(u32, u32)>> {
    let (user, group) = find(safety)?;
    let ids = user.zip(group);
    Ok(ids.map(|(user, group)| (user.uid.as_raw(), group.as_raw())))
}

fn find(safety: &Safety) -> io::Result<(Option<UserIds>, Option<Gid>)> {
    let user = safety.user.as_deref().map(find_user).transpose()?;
    let group = match (&safety.group, &user) {
        (Some(group), _) => Some(find_group(group)?),
        (None, Some(user)) => Some(user.gid),
        (None, None) => None,
    };
    Ok((user, group))
}

/// Whether the process runs as root.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

struct UserIds {
    name: CString,
    uid: Uid,
    gid: Gid,
}

fn find_user(name: &str) -> io::Result<UserIds> {
    let number = name.parse().ok().map(Uid::from_raw);
    let found = match number {
        Some(uid) => User::from_uid(uid)?,
        None => User::from_name(name)?,
    };
    match (found, number) {
        (Some(user), _) => Ok(UserIds {
            name: CString::new(user.name)?,
            uid: user.uid,
            gid: user.gid,
        }),
        // A numeric user need not have a name; its group then gets the same number.
        (None, Some(uid)) => Ok(UserIds {
            name: CString::new(name)?,
            uid,
            gid: Gid::from_raw(uid.as_raw()),
        }),
        (None, None) => Err(unknown("user", name)),
    }
}

fn find_group(name: &str) -> io::Result<Gid> {
    match name.parse() {
        Ok(number) => Ok(Gid::from_raw(number)),
        Err(_) => match Group::from_name(name)? {
            Some(group) => Ok(group.gid),
            None => Err(unknown("group", name)),
        },
    }
}

fn unknown(what: &str, name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("there is no {what} {name}"),
    )
}
