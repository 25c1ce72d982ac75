//! The address of a Redis, in the forms that `quota.redis.url` has.
//!
//! | form | URL |
//! |---|---|
//! | one server | `redis://[user:password@]host[:port][/database]` |
//! | Sentinel | `redis+sentinel://[user:password@]host[:port],…/master[/database][?sentinel_user=…&sentinel_password=…]` |
//! | Cluster | `redis+cluster://[user:password@]host[:port],…` |
//!
//! With `rediss` instead of `redis` all connections, those to sentinels too, are TLS. User and
//! password are percent-encoded where they hold `: / ? # @ %` or a comma.

use super::Secret;
use percent_encoding::percent_decode_str;
use std::fmt;
use std::net::Ipv6Addr;

/// Default ports of servers and of sentinels.
const PORTS: (u16, u16) = (6379, 26379);

/// A validated address. Its `Debug` and `Display` show neither user nor password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    pub form: RedisForm,
    pub tls: bool,
    /// Servers, sentinels or nodes of the cluster; at least one, and exactly one for
    /// [`RedisForm::Single`].
    pub hosts: Vec<RedisHost>,
    pub user: Option<String>,
    pub password: Option<Secret>,
    /// 0 for a cluster.
    pub database: u16,
}

/// What stands behind the address.
#[derive(Clone, PartialEq, Eq)]
pub enum RedisForm {
    Single,
    /// Sentinels that know where the master of this name is, and how to speak to them.
    Sentinel {
        master: String,
        user: Option<String>,
        password: Option<Secret>,
    },
    Cluster,
}

/// One address to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisHost {
    /// A name or an IP address, without brackets.
    pub host: String,
    pub port: u16,
}

impl RedisUrl {
    /// Read `text`.
    ///
    /// # Errors
    /// What is wrong, without any part of the text: it may hold a password.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or("it has no scheme")?;
        let (tls, form) = match scheme {
            "redis" => (false, ""),
            "rediss" => (true, ""),
            "redis+sentinel" => (false, "sentinel"),
            "rediss+sentinel" => (true, "sentinel"),
            "redis+cluster" => (false, "cluster"),
            "rediss+cluster" => (true, "cluster"),
            _ => return Err("its scheme is not one of those listed"),
        };
        if rest.contains('#') {
            return Err("it has a `#`: encode it in a password as %23; nothing else has one");
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        let port = if form == "sentinel" { PORTS.1 } else { PORTS.0 };
        let (form, database) = form_and_database(form, path, query)?;
        let hosts = hosts.split(',').map(|at| host(at, port)).collect::<Result<Vec<_>, _>>()?;
        if hosts.len() > 1 && form == RedisForm::Single {
            return Err("it has several hosts: begin it with redis+sentinel or redis+cluster");
        }
        Ok(Self {
            form,
            tls,
            hosts,
            user: decoded(user)?,
            password: decoded(password)?.map(Secret::from),
            database,
        })
    }
}

fn form_and_database(
    form: &str,
    path: &str,
    query: &str,
) -> Result<(RedisForm, u16), &'static str> {
    if form != "sentinel" && !query.is_empty() {
        return Err("it has a `?`: encode it in a password as %3F; only sentinels have options");
    }
    match form {
        "sentinel" => {
            let (master, database) = path.split_once('/').unwrap_or((path, ""));
            let master = decoded(master)?;
            let master = master.ok_or("the master's name is missing: …host:port/NAME")?;
            let (user, password) = sentinel_options(query)?;
            Ok((RedisForm::Sentinel { master, user, password }, number(database)?))
        }
        "cluster" if path.is_empty() || path == "0" => Ok((RedisForm::Cluster, 0)),
        "cluster" => Err("a cluster has database 0 only"),
        _ => Ok((RedisForm::Single, number(path)?)),
    }
}

fn sentinel_options(query: &str) -> Result<(Option<String>, Option<Secret>), &'static str> {
    let (mut user, mut password) = (None, None);
    for option in query.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("sentinel_user", value)) => user = decoded(value)?,
            Some(("sentinel_password", value)) => password = decoded(value)?.map(Secret::from),
            _ => return Err("an option is not known: sentinel_user and sentinel_password are"),
        }
    }
    Ok((user, password))
}

fn number(database: &str) -> Result<u16, &'static str> {
    match database {
        "" => Ok(0),
        digits => digits.parse().map_err(|_| "the database is not a number"),
    }
}

fn decoded(part: &str) -> Result<Option<String>, &'static str> {
    let text = percent_decode_str(part).decode_utf8();
    let text = text.map_err(|_| "a part of it is not UTF-8 when it is percent-decoded")?;
    Ok((!text.is_empty()).then(|| text.into_owned()))
}

fn host(text: &str, default: u16) -> Result<RedisHost, &'static str> {
    const PORT: &str = "a port is not a number from 1 to 65535";
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("a `]` is missing")?;
            host.parse::<Ipv6Addr>().map_err(|_| "not an IPv6 address in the brackets")?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or(PORT)?) })
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    if host.is_empty() || !host.chars().all(fits) {
        return Err("a host is missing or is not a name or address");
    }
    let port = match port {
        None => default,
        Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or(PORT)?,
    };
    Ok(RedisHost { host: host.to_owned(), port })
}

impl fmt::Display for RedisHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match self.form {
            RedisForm::Single => "",
            RedisForm::Sentinel { .. } => "+sentinel",
            RedisForm::Cluster => "+cluster",
        };
        write!(f, "redis{}{form}://", if self.tls { "s" } else { "" })?;
        for (n, host) in self.hosts.iter().enumerate() {
            write!(f, "{}{host}", if n > 0 { "," } else { "" })?;
        }
        if let RedisForm::Sentinel { master, .. } = &self.form {
            write!(f, "/{master}")?;
        }
        if self.form != RedisForm::Cluster {
            write!(f, "/{}", self.database)?;
        }
        Ok(())
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for RedisForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single => "Single",
            Self::Sentinel { .. } => "Sentinel",
            Self::Cluster => "Cluster",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        RedisUrl::parse(text).unwrap_or_else(|problem| panic!("{text}: {problem}")).to_string()
    }

    #[test]
    fn every_form_reads() {
        for (text, normal) in [
            ("redis://h", "redis://h:6379/0"),
            ("redis://h/", "redis://h:6379/0"),
            ("rediss://10.0.0.7:6380/3", "rediss://10.0.0.7:6380/3"),
            ("redis://[fd00::7]:1", "redis://[fd00::7]:1/0"),
            ("redis+sentinel://a,b:1/main", "redis+sentinel://a:26379,b:1/main/0"),
            ("rediss+sentinel://a/main/2", "rediss+sentinel://a:26379/main/2"),
            ("redis+cluster://a,b:1", "redis+cluster://a:6379,b:1"),
        ] {
            assert_eq!(shown(text), normal);
        }
    }

    #[test]
    fn credentials_are_decoded_and_not_shown() {
        let url = RedisUrl::parse("rediss://gate:p%40s%2Cs@h").unwrap();
        assert_eq!(url.user.as_deref(), Some("gate"));
        assert_eq!(url.password.as_ref().map(Secret::expose), Some("p@s,s"));
        let seen = format!("{url:?} {url}");
        assert!(!seen.contains("gate") && !seen.contains("p@s"), "{seen}");
        let url = RedisUrl::parse("redis://:only@h").unwrap();
        assert_eq!((url.user, url.password), (None, Some(Secret::from("only"))));
    }

    #[test]
    fn sentinels_have_credentials_of_their_own() {
        let text = "redis+sentinel://u:p@a/m?sentinel_user=s&sentinel_password=q%26";
        let RedisForm::Sentinel { master, user, password } = RedisUrl::parse(text).unwrap().form
        else {
            panic!("another form");
        };
        assert_eq!((master.as_str(), user.as_deref()), ("m", Some("s")));
        assert_eq!(password, Some(Secret::from("q&")));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_text() {
        for (text, part) in [
            ("h:6379", "scheme"),
            ("http://h", "scheme"),
            ("redis://", "host"),
            ("redis://u:hush@", "host"),
            ("redis://a,b", "several hosts"),
            ("redis://h:0", "port"),
            ("redis://h:hush", "port"),
            ("redis://[::1", "]"),
            ("redis://h/hush", "database"),
            ("redis://u:hu#sh@h", "%23"),
            ("redis://u:hu?sh@h", "%3F"),
            ("redis+sentinel://a", "name"),
            ("redis+sentinel://a/m?hush=1", "option"),
            ("redis+cluster://a/1", "database 0"),
        ] {
            let problem = RedisUrl::parse(text).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
            assert!(!problem.contains("hush"), "{problem}");
        }
    }
}
