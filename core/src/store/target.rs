//! Which store a URL names.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::str::FromStr;
use std::sync::Arc;

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    TlsCertificates,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use url::form_urlencoded;

use crate::error::{Error, Result, quote};

#[derive(Clone)]
pub(crate) enum Target {
    Memory,
    Server(Server),
    Sentinel(Sentinels),
    /// Some of the Cluster's servers; they name the others.
    Cluster(Vec<Server>),
}

/// Who knows which server is the master.
#[derive(Clone)]
pub(crate) struct Sentinels {
    pub(crate) nodes: Vec<Server>,
    /// The name under which they watch it.
    pub(crate) master: String,
    /// How the master is spoken to; its address is theirs to tell.
    pub(crate) template: Server,
}

/// A server: its address, and how it is spoken to.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) client: Client,
    certificates: Option<Arc<TlsCertificates>>,
}

const FORMS: &str =
    "memory://, redis://, rediss://, redis+unix://, redis+cluster:// or redis+sentinel://host:port/master";
/// Parameters of a URL that name files with certificates, in PEM format.
const CA_CERTIFICATES: &str = "ssl_ca_certs";
const CERTIFICATE: &str = "ssl_certfile";
const KEY: &str = "ssl_keyfile";
const SENTINEL_USER: &str = "sentinel_username";
const SENTINEL_PASSWORD: &str = "sentinel_password";
const MAX_HOSTS: usize = 64;
/// Of a file with certificates; all that systems trust is a quarter of it.
const MAX_FILE: u64 = 1 << 20;

impl FromStr for Target {
    type Err = Error;

    fn from_str(url: &str) -> Result<Target> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        if url == "memory://" {
            return Ok(Target::Memory);
        }
        let mut address = Address::parse(rest);
        match scheme {
            "redis" | "rediss" | "redis+unix" | "unix" => address.server(scheme).map(Target::Server),
            "redis+cluster" | "rediss+cluster" => {
                if !matches!(address.path, "" | "/" | "/0") {
                    return Err(unreadable("a Cluster has only database 0"));
                }
                address.servers(single(scheme), 6379).map(Target::Cluster)
            }
            "redis+sentinel" | "rediss+sentinel" => address.sentinels(single(scheme)).map(Target::Sentinel),
            _ => Err(unreadable("its scheme is none of these")),
        }
    }
}

/// The scheme of one of several servers.
fn single(scheme: &str) -> &str {
    scheme.split('+').next().unwrap_or(scheme)
}

/// The parts of a URL behind its scheme.
struct Address<'a> {
    user: Option<&'a str>,
    hosts: Vec<&'a str>,
    path: &'a str,
    parameters: Vec<(String, String)>,
    fragment: &'a str,
}

impl<'a> Address<'a> {
    fn parse(rest: &'a str) -> Address<'a> {
        let (rest, fragment) = rest.split_at(rest.find('#').unwrap_or(rest.len()));
        let (rest, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let parameters = form_urlencoded::parse(query.trim_start_matches('?').as_bytes());
        Address {
            user,
            hosts: hosts.split(',').collect(),
            path,
            parameters: parameters.into_owned().collect(),
            fragment,
        }
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.parameters.iter().position(|(known, _)| known == name)?;
        Some(self.parameters.swap_remove(at).1)
    }

    fn certificates(&mut self) -> Result<Option<Arc<TlsCertificates>>> {
        let mut read = |name: &str, holds: fn(&[u8]) -> bool, what: &str| {
            let Some(path) = self.take(name) else { return Ok(None) };
            let wrong = |why: String| Error::config(format!("url: {name} {} {why}", quote(&path)));
            let pem = read_bounded(&path).map_err(|error| wrong(format!("can't be read: {error}")))?;
            if holds(&pem) { Ok(Some(pem)) } else { Err(wrong(format!("holds no {what} in PEM format"))) }
        };
        let certified: fn(&[u8]) -> bool = |pem| CertificateDer::from_pem_slice(pem).is_ok();
        let root_cert = read(CA_CERTIFICATES, certified, "certificate")?;
        let certificate = read(CERTIFICATE, certified, "certificate")?;
        let key = read(KEY, |pem| PrivateKeyDer::from_pem_slice(pem).is_ok(), "private key")?;
        let client_tls = match (certificate, key) {
            (Some(client_cert), Some(client_key)) => Some(ClientTlsConfig { client_cert, client_key }),
            (None, None) => None,
            _ => return Err(Error::config(format!("url: {CERTIFICATE} and {KEY} come together"))),
        };
        let any = root_cert.is_some() || client_tls.is_some();
        Ok(any.then(|| Arc::new(TlsCertificates { client_tls, root_cert })))
    }

    /// What is said twice, or is not known here, is more likely a slip than meant.
    fn only(&self, known: &[&str]) -> Result<()> {
        let names = || self.parameters.iter().map(|(name, _)| name.as_str());
        match names().find(|name| !known.contains(name) || names().filter(|other| other == name).count() > 1)
        {
            None => Ok(()),
            Some(name) => {
                let known = [known, &[CA_CERTIFICATES, CERTIFICATE, KEY]].concat().join(", ");
                Err(Error::config(format!("url: parameter {} is not one of {known}, once each", quote(name))))
            }
        }
    }

    fn server(&mut self, scheme: &str) -> Result<Server> {
        let certificates = self.certificates()?;
        let unix = scheme.ends_with("unix");
        self.only(if unix { &["db", "user", "pass", "protocol"] } else { &["protocol"] })?;
        let hosts = self.hosts.join(",");
        if hosts.contains(',') {
            return Err(unreadable("it names several hosts"));
        }
        let path = self.path;
        self.one(scheme, &hosts, path, certificates)
    }

    fn servers(&mut self, scheme: &str, default_port: u16) -> Result<Vec<Server>> {
        let certificates = self.certificates()?;
        self.only(&["protocol"])?;
        self.each(scheme, default_port, certificates.as_ref())
    }

    fn each(&self, scheme: &str, port: u16, tls: Option<&Arc<TlsCertificates>>) -> Result<Vec<Server>> {
        if self.hosts.len() > MAX_HOSTS {
            return Err(unreadable(&format!("it names more than {MAX_HOSTS} hosts")));
        }
        let with_port = |host: &str| match host.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => host.to_owned(),
            _ => format!("{host}:{port}"),
        };
        self.hosts.iter().map(|host| self.one(scheme, &with_port(host), "", tls.cloned())).collect()
    }

    fn sentinels(&mut self, scheme: &str) -> Result<Sentinels> {
        let certificates = self.certificates()?;
        let (user, password) = (self.take(SENTINEL_USER), self.take(SENTINEL_PASSWORD));
        self.only(&["protocol", SENTINEL_USER, SENTINEL_PASSWORD])?;
        let (master, database) = match self.path.trim_start_matches('/').split_once('/') {
            Some((master, database)) => (master, database),
            None => (self.path.trim_start_matches('/'), ""),
        };
        let master = percent_decoded(master);
        if master.is_empty() {
            return Err(unreadable("it does not name the master that the sentinels watch"));
        }
        let first = self.hosts.first().copied().unwrap_or_default();
        let template = self.one(scheme, first, &format!("/{database}"), certificates.clone())?;
        let nodes = self.each(scheme, 26379, certificates.as_ref())?;
        // User and password are the master's; the sentinels have their own, or none.
        let nodes = nodes.into_iter().map(|node| node.with_login(user.as_deref(), password.as_deref()));
        Ok(Sentinels { nodes: nodes.collect::<Result<_>>()?, master, template })
    }

    fn one(
        &self,
        scheme: &str,
        host: &str,
        path: &str,
        certificates: Option<Arc<TlsCertificates>>,
    ) -> Result<Server> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(&self.parameters);
        let (query, user) = (query.finish(), self.user.map(|user| format!("{user}@")).unwrap_or_default());
        let mark = if query.is_empty() { "" } else { "?" };
        let url = format!("{scheme}://{user}{host}{path}{mark}{query}{}", self.fragment);
        let info = url.into_connection_info().map_err(|error| unreadable(&error.to_string()))?;
        Server::new(info, certificates)
    }
}

fn percent_decoded(text: &str) -> String {
    // As a query does, but for plus signs, which are themselves in a path.
    let text = text.replace('+', "%2B");
    form_urlencoded::parse(text.as_bytes()).map(|(name, _)| name.into_owned()).next().unwrap_or_default()
}

/// The whole of a file that has an end.
fn read_bounded(path: &str) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_FILE {
        return Err(io::Error::other(format!("it has more than {MAX_FILE} bytes")));
    }
    Ok(content)
}

/// The URL itself is not quoted: it may hold a password.
fn unreadable(why: &str) -> Error {
    Error::config(format!("url can't be read ({why}); expected {FORMS}"))
}

impl Server {
    fn new(info: ConnectionInfo, certificates: Option<Arc<TlsCertificates>>) -> Result<Server> {
        // RESP3 lets a disconnect be noticed at once.
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let info = info.set_redis_settings(settings).set_tcp_settings(tcp);
        let client = match &certificates {
            Some(certificates) if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) => {
                Client::build_with_tls(info, TlsCertificates::clone(certificates))
            }
            Some(_) => return Err(Error::config("url: certificates need rediss://")),
            None => Client::open(info),
        };
        match client {
            Ok(client) => Ok(Server { client, certificates }),
            Err(error) => Err(unreadable(&error.to_string())),
        }
    }

    /// The server at another address that is spoken to in the same way.
    pub(crate) fn at(&self, host: &str, port: u16) -> Result<Server> {
        let host = host.to_owned();
        let address = match self.info().addr() {
            ConnectionAddr::TcpTls { insecure, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: None }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        Server::new(self.info().clone().set_addr(address), self.certificates.clone())
    }

    fn with_login(&self, user: Option<&str>, password: Option<&str>) -> Result<Server> {
        let mut settings = redis::RedisConnectionInfo::default();
        if let Some(user) = user {
            settings = settings.set_username(user);
        }
        if let Some(password) = password {
            settings = settings.set_password(password);
        }
        Server::new(self.info().clone().set_redis_settings(settings), self.certificates.clone())
    }

    pub(crate) fn info(&self) -> &ConnectionInfo {
        self.client.get_connection_info()
    }

    pub(crate) fn host(&self) -> &str {
        match self.info().addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
            _ => "",
        }
    }
}

/// Its address, which names no user and no password.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info().addr())
    }
}

impl Target {
    /// Where the store is, without user and password.
    pub(crate) fn describe(&self) -> String {
        let list = |servers: &[Server]| servers.iter().map(Server::to_string).collect::<Vec<_>>().join(",");
        let database = |server: &Server| server.info().redis_settings().db();
        match self {
            Target::Memory => "memory://".to_owned(),
            Target::Server(server) => format!("redis at {server}, database {}", database(server)),
            Target::Sentinel(Sentinels { nodes, master, template }) => {
                format!("redis {master:?} by sentinels at {}, database {}", list(nodes), database(template))
            }
            Target::Cluster(seeds) => format!("redis Cluster at {}", list(seeds)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(url: &str) -> String {
        url.parse::<Target>().map_or_else(|error| error.to_string(), |target| target.describe())
    }

    #[test]
    fn urls_name_their_servers() {
        assert_eq!(servers("redis://h"), "redis at h:6379, database 0");
        assert_eq!(servers("redis://u:p%40@h:1/3"), "redis at h:1, database 3");
        assert_eq!(servers("redis+unix:///run/r.sock?db=2"), "redis at /run/r.sock, database 2");
        assert_eq!(
            servers("redis+cluster://:p@a,b:7001,[::1]:7002"),
            "redis Cluster at a:6379,b:7001,::1:7002"
        );
        assert_eq!(
            servers("redis+sentinel://u:p@a,b:5/my%20master/2?sentinel_password=s"),
            "redis \"my master\" by sentinels at a:26379,b:5, database 2"
        );
        let Target::Sentinel(found) = "redis+sentinel://u:p@a/m/2?sentinel_password=s".parse().unwrap()
        else {
            panic!("another kind of target")
        };
        let login = |server: &Server| {
            let settings = server.info().redis_settings();
            (settings.username().map(str::to_owned), settings.password().map(str::to_owned), settings.db())
        };
        assert_eq!(login(&found.template), (Some("u".to_owned()), Some("p".to_owned()), 2));
        assert_eq!(login(&found.nodes[0]), (None, Some("s".to_owned()), 0));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for (url, why) in [
            ("redis+sentinel://:secret@a", "master"),
            ("redis+cluster://:secret@a/1", "database 0"),
            ("redis://:secret@a,b", "several hosts"),
            ("redis://:secret@a?ssl_ca_certs=/none", "/none"),
            ("rediss://:secret@a?ssl_certfile=/dev/null", "holds no certificate"),
            ("rediss://:secret@a?ssl_keyfile=/dev/null", "holds no private key"),
            ("rediss://:secret@a?ssl_ca_certs=/dev/zero", "more than 1048576 bytes"),
            ("redis://:secret@a?ssl_ca_certs=/dev/null", "holds no certificate"),
            ("redis://:secret@a?tiemout=1", "tiemout"),
            ("redis+cluster://:secret@", "url"),
            ("http://:secret@a", "scheme"),
        ] {
            let said = servers(url);
            assert!(said.contains(why) && !said.contains("secret"), "{url}: {said}");
        }
    }
}
