//! The URLs of stores that are groups of servers.
//!
//! ```text
//! sentinels = "redis" ["s"] "+sentinel://" [user] hosts "/" master ["/" database] ["?" option {"&" option}]
//! cluster   = "redis" ["s"] "+cluster://" [user] hosts
//! user      = [name] [":" password] "@"        percent-encoded, as in any URL
//! hosts     = host [":" port] {"," host [":" port]}
//! option    = "sentinel_user=" … | "sentinel_password=" … | "sentinel_tls=" ("yes" | "no")
//! ```

use redis::{ConnectionInfo, IntoConnectionInfo};

use crate::config::ConfigError;

/// Where sentinels listen unless their port is given.
const SENTINEL_PORT: &str = ":26379";
const SENTINEL_FORM: &str = "redis+sentinel://[user:password@]host[:port][,host[:port]…]/master[/database][?sentinel_user=…&sentinel_password=…&sentinel_tls=…]";
const CLUSTER_FORM: &str = "redis+cluster://[user:password@]host[:port][,host[:port]…]";

/// What a URL of a group names.
pub(crate) enum Group {
    /// Sentinels, what they call the master, and the master's user and database at no address yet.
    Sentinels { sentinels: Vec<ConnectionInfo>, name: String, master: ConnectionInfo },
    /// A node of a cluster, and further ones.
    Cluster { first: ConnectionInfo, seeds: Vec<ConnectionInfo> },
}

/// Reads the URL of a group; `None` if it is one of a single server.
pub(crate) fn group(url: &str) -> Option<Result<Group, ConfigError>> {
    let (scheme, rest) = url.split_once("://")?;
    let (own, kind) = scheme.split_once('+')?;
    if !["redis", "rediss"].contains(&own) {
        return None;
    }
    match kind {
        "sentinel" => Some(sentinels(own, rest)),
        "cluster" => Some(cluster(own, rest)),
        _ => None,
    }
}

fn sentinels(scheme: &str, rest: &str) -> Result<Group, ConfigError> {
    let wrong = |problem: &'static str| ConfigError::Group { form: SENTINEL_FORM, problem };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = place.split_once('/').ok_or_else(|| wrong("the master's name is missing"))?;
    let (user, first, further) = hosts(authority).ok_or_else(|| wrong("a host is missing"))?;
    let (name, database) = path.split_once('/').unwrap_or((path, "0"));
    if name.is_empty() {
        return Err(wrong("the master's name is missing"));
    }
    let options = Options::of(query).map_err(wrong)?;
    let watcher = if options.tls.unwrap_or(scheme == "rediss") { "rediss" } else { "redis" };
    let sentinel = |host: &str| {
        let port = if has_port(host) { "" } else { SENTINEL_PORT };
        read(&format!("{watcher}://{}{host}{port}", options.user()))
    };
    Ok(Group::Sentinels {
        sentinels: [first].into_iter().chain(further).map(sentinel).collect::<Result<_, _>>()?,
        name: name.to_owned(),
        master: read(&format!("{scheme}://{user}{first}/{database}"))?,
    })
}

fn cluster(scheme: &str, rest: &str) -> Result<Group, ConfigError> {
    let wrong = |problem: &'static str| ConfigError::Group { form: CLUSTER_FORM, problem };
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    if !["", "0"].contains(&database) || rest.contains('?') {
        return Err(wrong("a cluster has database 0 alone, and no options"));
    }
    let (user, first, further) = hosts(authority).ok_or_else(|| wrong("a host is missing"))?;
    let seed = |host: &str| read(&format!("{scheme}://{user}{host}"));
    let seeds = further.into_iter().map(seed).collect::<Result<_, _>>()?;
    Ok(Group::Cluster { first: seed(first)?, seeds })
}

/// What stands before the hosts, with its `@`, the first host, and the further ones; `None` if one of them is empty.
fn hosts(authority: &str) -> Option<(&str, &str, Vec<&str>)> {
    let (user, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    let mut hosts = hosts.split(',');
    let (first, further) = (hosts.next()?, hosts.collect::<Vec<_>>());
    (!first.is_empty() && !further.contains(&"")).then_some((user, first, further))
}

fn has_port(host: &str) -> bool {
    host.rsplit(']').next().is_some_and(|end| end.contains(':'))
}

fn read(url: &str) -> Result<ConnectionInfo, ConfigError> {
    url.into_connection_info().map_err(ConfigError::Url)
}

/// What a URL of sentinels says about the sentinels themselves. Still percent-encoded: it becomes part of their URLs.
#[derive(Default)]
struct Options<'u> {
    user: &'u str,
    password: &'u str,
    tls: Option<bool>,
}

impl<'u> Options<'u> {
    fn of(query: &'u str) -> Result<Self, &'static str> {
        let mut options = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sentinel_user", user)) => options.user = user,
                Some(("sentinel_password", password)) => options.password = password,
                Some(("sentinel_tls", "yes")) => options.tls = Some(true),
                Some(("sentinel_tls", "no")) => options.tls = Some(false),
                _ => return Err("an option is unknown"),
            }
        }
        Ok(options)
    }

    fn user(&self) -> String {
        match (self.user, self.password) {
            ("", "") => String::new(),
            (user, password) => format!("{user}:{password}@"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(infos: &[ConnectionInfo]) -> Vec<String> {
        infos.iter().map(|info| info.addr().to_string()).collect()
    }

    #[test]
    fn the_url_of_sentinels_names_them_their_master_and_who_asks() {
        let url = "rediss+sentinel://app:s%40cret@a,[::1]:7,b:8/limits/3?sentinel_user=w&sentinel_password=p%26&sentinel_tls=no";
        let Some(Ok(Group::Sentinels { sentinels, name, master })) = group(url) else { panic!("{url}") };
        assert_eq!(addresses(&sentinels), ["a:26379", "::1:7", "b:8"]);
        assert_eq!((name.as_str(), master.redis_settings().db()), ("limits", 3));
        assert_eq!(master.redis_settings().password(), Some("s@cret"));
        assert_eq!(sentinels[0].redis_settings().username(), Some("w"));
        assert_eq!(sentinels[0].redis_settings().password(), Some("p&"));
        assert!(matches!(master.addr(), redis::ConnectionAddr::TcpTls { .. }));
        assert!(matches!(sentinels[0].addr(), redis::ConnectionAddr::Tcp(..)));
    }

    #[test]
    fn the_url_of_a_cluster_names_some_of_its_nodes() {
        let url = "redis+cluster://:secret@a:1,b";
        let Some(Ok(Group::Cluster { first, seeds })) = group(url) else { panic!("{url}") };
        assert_eq!((first.addr().to_string(), addresses(&seeds)), ("a:1".into(), vec!["b:6379".to_owned()]));
        assert!(seeds.iter().chain([&first]).all(|seed| seed.redis_settings().password() == Some("secret")));
    }

    #[test]
    fn what_is_no_url_of_a_group_is_refused() {
        for url in [
            "redis+sentinel://a",
            "redis+sentinel://a/",
            "redis+sentinel:///limits",
            "redis+sentinel://a,,b/limits",
            "redis+sentinel://a/limits/three",
            "redis+sentinel://a/limits?tls=yes",
            "redis+sentinel://a/limits?sentinel_tls=perhaps",
            "redis+cluster://",
            "redis+cluster://a/3",
            "redis+cluster://a?x=y",
            "redis+cluster://a:port",
        ] {
            assert!(matches!(group(url), Some(Err(_))), "{url}");
        }
        assert!(group("redis://a").is_none() && group("redis+unix:///a").is_none());
    }
}
