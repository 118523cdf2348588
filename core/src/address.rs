//! Who the client is, behind proxies: a key that a client can't choose.
//!
//! A proxy that is configured as trusted says in a header from whom it got the request. Each proxy
//! appends to what was there, and what was there first may have been made up by the client. So the
//! header is read from its end, one hop after the other, for as long as the hop that said it is
//! trusted; the first address that is not is the client. Without trusted proxies no header is read.
//!
//! Exactly one header is read: a proxy that sets one of them passes the other on as the client sent
//! it. It is `X-Forwarded-For` unless said, as that is what most proxies set.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

use crate::error::{Error, ErrorKind, Result, quote};

/// More hops than that are no chain of proxies.
const MAX_HOPS: usize = 64;
/// A hop is an address with some parameters; a longer one is nonsense.
const MAX_HOP: usize = 512;
const MAX_TRUSTED: usize = 4096;

/// The key of a peer that has no address.
const UNKNOWN: &str = "unknown";

const PRESETS: [(&str, &[&str]); 3] = [
    ("loopback", &["127.0.0.0/8", "::1/128"]),
    ("linklocal", &["169.254.0.0/16", "fe80::/10"]),
    ("uniquelocal", &["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"]),
];
const UNIX: &str = "unix";

/// Which header trusted proxies say the client's address in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`, a list of addresses.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

impl ForwardedHeader {
    /// Every header that is known.
    pub const ALL: [ForwardedHeader; 2] = [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded];

    /// The header's name, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            ForwardedHeader::XForwardedFor => "x-forwarded-for",
            ForwardedHeader::Forwarded => "forwarded",
        }
    }
}

impl fmt::Display for ForwardedHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ForwardedHeader {
    type Err = Error;

    fn from_str(text: &str) -> Result<ForwardedHeader> {
        let known = ForwardedHeader::ALL.into_iter().find(|known| text.eq_ignore_ascii_case(known.as_str()));
        known.ok_or_else(|| {
            let names = ForwardedHeader::ALL.map(ForwardedHeader::as_str).join(", ");
            Error::config(format!("header must be one of {names}, got {}", quote(text)))
        })
    }
}

/// Turns a request's peer and header into a key that says who the client is.
///
/// ```
/// use sluicegate::ClientAddress;
///
/// let client = ClientAddress::new(["loopback", "10.0.0.0/8"])?;
/// assert_eq!(client.key("127.0.0.1:8080", ["203.0.113.7, 10.1.2.3"]), "203.0.113.7");
/// // A peer that is no trusted proxy can say what it likes.
/// assert_eq!(client.key("198.51.100.1:4711", ["203.0.113.7"]), "198.51.100.1");
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAddress {
    trusted: Vec<IpNet>,
    /// Whether peers without an address are trusted.
    trusts_unix: bool,
    header: ForwardedHeader,
    ipv4_prefix: u8,
    ipv6_prefix: u8,
}

impl Default for ClientAddress {
    /// Trusts nobody: the client is the peer.
    fn default() -> Self {
        ClientAddress {
            trusted: Vec::new(),
            trusts_unix: false,
            header: ForwardedHeader::default(),
            ipv4_prefix: 32,
            ipv6_prefix: 64,
        }
    }
}

impl ClientAddress {
    /// Trusts these proxies: addresses, networks such as `10.0.0.0/8` or `2001:db8::/32`, or the
    /// presets `loopback` (127.0.0.0/8, ::1), `linklocal` (169.254.0.0/16, fe80::/10), `uniquelocal`
    /// (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, fc00::/7) and `unix` (peers without an address, as
    /// on a Unix socket). At most 4096.
    ///
    /// Every machine in them can choose its key, so name what your proxies have and nothing else.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for what is none of these, and for a network of all addresses.
    pub fn new<T: AsRef<str>>(trusted: impl IntoIterator<Item = T>) -> Result<ClientAddress> {
        let mut client = ClientAddress::default();
        for text in trusted {
            client.trust(text.as_ref())?;
            if client.trusted.len() > MAX_TRUSTED {
                return Err(Error::config(format!("trusted must name at most {MAX_TRUSTED} networks")));
            }
        }
        Ok(client)
    }

    /// Which header trusted proxies set; [`ForwardedHeader::XForwardedFor`] unless said. The other is
    /// never read.
    pub fn header(mut self, header: ForwardedHeader) -> Self {
        self.header = header;
        self
    }

    /// How many leading bits of an IPv4 address name a client, 1 to 32; 32 unless said.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for another number.
    pub fn ipv4_prefix(mut self, bits: i64) -> Result<Self> {
        self.ipv4_prefix = prefix("ipv4_prefix", bits, 32)?;
        Ok(self)
    }

    /// How many leading bits of an IPv6 address name a client, 1 to 128; 64 unless said, as that is
    /// what one subscriber has at least: whoever could change the rest would be many clients.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for another number.
    pub fn ipv6_prefix(mut self, bits: i64) -> Result<Self> {
        self.ipv6_prefix = prefix("ipv6_prefix", bits, 128)?;
        Ok(self)
    }

    /// The name of the header whose values [`ClientAddress::key`] wants, in lower case.
    pub fn header_name(&self) -> &'static str {
        self.header.as_str()
    }

    /// Who the client is: `203.0.113.7`, or `2001:db8:1:2::/64` where a prefix groups addresses.
    ///
    /// `peer` is the address of the connection's other end, with or without port, brackets or zone.
    /// `values` are those of the header [`ClientAddress::header_name`], in the order in which they
    /// came; none, where it is not there. An IPv4 address mapped into IPv6 is that IPv4 address.
    ///
    /// Never fails. What is no address in a header (`unknown`, an obfuscated name, nonsense) ends the
    /// walk at the last trusted proxy, and so does a chain of more than 64. A peer without an address
    /// is `unknown`, unless it is trusted (`unix`) and the header names a client.
    pub fn key<T: AsRef<[u8]>>(&self, peer: &str, values: impl IntoIterator<Item = T>) -> String {
        self.client(node(peer), values).map_or_else(|| UNKNOWN.to_owned(), |client| self.grouped(client))
    }

    fn client<T: AsRef<[u8]>>(
        &self,
        peer: Option<IpAddr>,
        values: impl IntoIterator<Item = T>,
    ) -> Option<IpAddr> {
        let mut client = peer;
        if !self.trusts(client) {
            return client;
        }
        // Only so many of the last can matter, as each has a hop at least.
        let mut last = VecDeque::with_capacity(1);
        for value in values {
            if last.len() == MAX_HOPS {
                last.pop_front();
            }
            last.push_back(value);
        }
        let hops = last.iter().rev().flat_map(|value| Hops::new(value.as_ref(), self.header));
        for hop in hops.take(MAX_HOPS) {
            match hop.and_then(|hop| self.named(hop)) {
                Some(named) => client = Some(named),
                None => break,
            }
            if !self.trusts(client) {
                break;
            }
        }
        client
    }

    /// The address that a hop names.
    fn named(&self, hop: &[u8]) -> Option<IpAddr> {
        match self.header {
            ForwardedHeader::XForwardedFor => node(str::from_utf8(hop).ok()?),
            ForwardedHeader::Forwarded => node(&forwarded_for(hop)?),
        }
    }

    fn trusts(&self, address: Option<IpAddr>) -> bool {
        match address {
            Some(address) => self.trusted.iter().any(|network| network.contains(&address)),
            None => self.trusts_unix,
        }
    }

    fn grouped(&self, client: IpAddr) -> String {
        let prefix = match client {
            IpAddr::V4(_) => self.ipv4_prefix,
            IpAddr::V6(_) => self.ipv6_prefix,
        };
        match IpNet::new(client, prefix) {
            Ok(network) if network.prefix_len() < network.max_prefix_len() => network.trunc().to_string(),
            _ => client.to_string(),
        }
    }

    fn trust(&mut self, text: &str) -> Result<()> {
        if text == UNIX {
            self.trusts_unix = true;
        } else if let Some((_, networks)) = PRESETS.iter().find(|(name, _)| *name == text) {
            self.trusted.extend(networks.iter().filter_map(|network| network.parse::<IpNet>().ok()));
        } else {
            self.trusted.push(network(text)?);
        }
        Ok(())
    }
}

fn prefix(name: &str, bits: i64, most: u8) -> Result<u8> {
    match u8::try_from(bits) {
        Ok(bits) if (1..=most).contains(&bits) => Ok(bits),
        _ => Err(Error::config(format!("{name} must be 1 to {most}, got {bits}"))),
    }
}

fn network(text: &str) -> Result<IpNet> {
    let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    let Ok(network) = network else {
        let names = PRESETS.map(|(name, _)| name).join(", ");
        return Err(Error::config(format!(
            "trusted must hold addresses, networks such as 10.0.0.0/8, or {names}, {UNIX}; got {}",
            quote(text)
        )));
    };
    let network = unmapped(network.trunc());
    if network.prefix_len() == 0 {
        return Err(Error::new(
            ErrorKind::Config,
            format!("trusted must not hold {text}: every client could choose its key; name your proxies"),
        ));
    }
    Ok(network)
}

/// A network of mapped addresses is the IPv4 network, as the addresses that are asked for are IPv4.
fn unmapped(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else { return network };
    let v4 = v6.prefix_len().checked_sub(96).zip(v6.addr().to_ipv4_mapped());
    v4.and_then(|(bits, address)| Ipv4Net::new(address, bits).ok()).map_or(IpNet::V6(v6), IpNet::V4)
}

/// The address in `203.0.113.7`, `203.0.113.7:80`, `[2001:db8::1]:80`, `2001:db8::1` or
/// `fe80::1%eth0`, in its shortest form. A port may be a name (`_hidden`), as RFC 7239 allows.
fn node(text: &str) -> Option<IpAddr> {
    let text = text.trim_matches([' ', '\t']);
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let port = if port.is_empty() { Some("0") } else { port.strip_prefix(':') };
        return port.filter(|port| is_port(port)).and_then(|_| v6(address));
    }
    match text.split_once(':') {
        Some((address, port)) if !port.contains(':') => {
            is_port(port).then(|| address.parse().ok().map(IpAddr::V4)).flatten()
        }
        Some(_) => v6(text),
        None => text.parse().ok().map(IpAddr::V4),
    }
}

fn v6(text: &str) -> Option<IpAddr> {
    // A zone says through which of our own interfaces; it is nothing of the client's.
    let address = text.split_once('%').map_or(text, |(address, _zone)| address);
    address.parse::<Ipv6Addr>().ok().map(|address| IpAddr::V6(address).to_canonical())
}

fn is_port(text: &str) -> bool {
    match text.strip_prefix('_') {
        Some(name) => {
            !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || b"._-".contains(&c))
        }
        None => text.bytes().all(|c| c.is_ascii_digit()) && text.parse::<u16>().is_ok(),
    }
}

/// The hops of a header's value, the last first; a part that can't be one is `None`.
///
/// It is cut from its end: what trusted proxies have appended is whole, whatever quotes the client
/// left open before it.
struct Hops<'a> {
    rest: Option<&'a [u8]>,
    quotes: bool,
}

impl<'a> Hops<'a> {
    fn new(value: &'a [u8], header: ForwardedHeader) -> Self {
        Hops { rest: Some(value), quotes: header == ForwardedHeader::Forwarded }
    }
}

impl<'a> Iterator for Hops<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest?;
        let window = rest.len().saturating_sub(MAX_HOP);
        let comma = find_last(rest, window, b',', self.quotes);
        self.rest = comma.map(|comma| &rest[..comma]);
        Some(match comma {
            Some(comma) => Some(&rest[comma + 1..]),
            None => (window == 0).then_some(rest),
        })
    }
}

/// Where `wanted` stands last from `from` on, outside of quotes if there are such.
fn find_last(text: &[u8], from: usize, wanted: u8, quotes: bool) -> Option<usize> {
    let mut quoted = false;
    for at in (from..text.len()).rev() {
        match text[at] {
            b'"' if quotes => {
                let escapes = text[from..at].iter().rev().take_while(|byte| **byte == b'\\').count();
                quoted = !quoted || escapes % 2 == 1;
            }
            byte if byte == wanted && !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// The value of the one `for` of a forwarded element, such as `for="[2001:db8::1]:80";proto=https`.
fn forwarded_for(mut element: &[u8]) -> Option<String> {
    let mut found = None;
    loop {
        let cut = find_last(element, 0, b';', true);
        let pair = cut.map_or(element, |cut| &element[cut + 1..]);
        let pair = str::from_utf8(pair).ok()?.trim_matches([' ', '\t']);
        let (name, value) = pair.split_once('=')?;
        if name.eq_ignore_ascii_case("for") && found.replace(unquoted(value)?).is_some() {
            return None;
        }
        match cut {
            Some(cut) => element = &element[..cut],
            None => return found,
        }
    }
}

fn unquoted(value: &str) -> Option<String> {
    let Some(inner) = value.strip_prefix('"') else {
        return (!value.contains('"')).then(|| value.to_owned());
    };
    let mut text = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    loop {
        match characters.next()? {
            '"' => return characters.as_str().is_empty().then_some(text),
            '\\' => text.push(characters.next()?),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn behind(trusted: &[&str]) -> ClientAddress {
        ClientAddress::new(trusted).unwrap()
    }

    #[test]
    fn nobody_is_trusted_by_default() {
        let client = ClientAddress::default();
        assert_eq!(client, behind(&[]));
        assert_eq!(client.header_name(), "x-forwarded-for");
        assert_eq!(client.key("127.0.0.1", ["203.0.113.7"]), "127.0.0.1");
        assert_eq!(client.key("", ["203.0.113.7"]), "unknown");
    }

    #[test]
    fn a_header_need_not_be_text() {
        let client = behind(&["loopback"]);
        assert_eq!(client.key("127.0.0.1", [b"\xff\xfe".as_slice()]), "127.0.0.1");
        assert_eq!(client.key("127.0.0.1", [b"\xff\xfe, 203.0.113.7".as_slice()]), "203.0.113.7");
        let client = client.header(ForwardedHeader::Forwarded);
        assert_eq!(client.key("127.0.0.1", [b"for=\"\xff\", for=203.0.113.7".as_slice()]), "203.0.113.7");
        assert_eq!(client.key("127.0.0.1", [b"for=203.0.113.7;host=\xff".as_slice()]), "127.0.0.1");
    }

    #[test]
    fn lists_of_proxies_are_bounded() {
        assert!(ClientAddress::new((0..=MAX_TRUSTED).map(|_| "192.0.2.1")).is_err());
        assert!(ClientAddress::new((0..MAX_TRUSTED).map(|_| "192.0.2.1")).is_ok());
    }

    fn any_address(random: &mut StdRng) -> IpAddr {
        if random.random() {
            IpAddr::from(random.random::<[u8; 4]>())
        } else {
            IpAddr::from(random.random::<[u8; 16]>()).to_canonical()
        }
    }

    fn nonsense(random: &mut StdRng) -> Vec<u8> {
        const BYTES: &[u8] = b"0123456789abcdef.:,;=\"\\[]% \tfor_/\xff";
        (0..random.random_range(0..40)).map(|_| *BYTES.choose(random).unwrap()).collect()
    }

    /// An element of either header, as a proxy would write it.
    fn element(random: &mut StdRng, header: ForwardedHeader, address: IpAddr) -> String {
        let port = random.random::<u16>();
        let node = match (address, random.random()) {
            (IpAddr::V4(v4), true) => v4.to_string(),
            (IpAddr::V4(v4), false) => format!("{v4}:{port}"),
            (IpAddr::V6(v6), true) => format!("[{v6}]:{port}"),
            (IpAddr::V6(v6), false) => format!("[{v6}]"),
        };
        match header {
            ForwardedHeader::XForwardedFor => node,
            ForwardedHeader::Forwarded => format!("for=\"{node}\";host=\"a\\\",b\";proto=https"),
        }
    }

    #[test]
    fn nothing_a_client_sends_changes_its_key() {
        let mut random = StdRng::seed_from_u64(6);
        let proxies: Vec<IpAddr> = (1..=9).map(|last| IpAddr::from([10, 0, 0, last])).collect();
        for _ in 0..4_000 {
            let header = *ForwardedHeader::ALL.choose(&mut random).unwrap();
            let client = behind(&["10.0.0.0/8"]).header(header);
            let address = any_address(&mut random);
            if client.trusts(Some(address)) {
                continue;
            }
            let expected = client.grouped(address);
            // Straight to us.
            let sent: Vec<Vec<u8>> = (0..random.random_range(0..4)).map(|_| nonsense(&mut random)).collect();
            assert_eq!(client.key(&address.to_string(), &sent), expected);
            // Through some proxies, each of which appends whom it got the request from: to the last
            // line, or as a line of its own.
            let mut lines = sent.clone();
            let mut from = address;
            let hops = random.random_range(1..6);
            for _ in 0..hops {
                let appended = element(&mut random, header, from).into_bytes();
                match lines.last_mut().filter(|_| random.random()) {
                    Some(line) => {
                        line.extend_from_slice(b", ");
                        line.extend_from_slice(&appended);
                    }
                    None => lines.push(appended),
                }
                from = *proxies.choose(&mut random).unwrap();
            }
            let got = client.key(&from.to_string(), &lines);
            assert_eq!(
                got,
                expected,
                "{sent:?} {:?}",
                lines.iter().map(|l| String::from_utf8_lossy(l)).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn every_key_is_an_address_or_a_network() {
        let mut random = StdRng::seed_from_u64(7);
        let client = behind(&["0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1", "unix"]);
        for _ in 0..10_000 {
            let header = *ForwardedHeader::ALL.choose(&mut random).unwrap();
            let peer = String::from_utf8_lossy(&nonsense(&mut random)).into_owned();
            let values = [nonsense(&mut random), nonsense(&mut random)];
            let key = client.clone().header(header).key(&peer, &values);
            let known = key == UNKNOWN || key.parse::<IpAddr>().is_ok() || key.parse::<IpNet>().is_ok();
            assert!(known, "{key} from {peer:?} {values:?}");
        }
    }

    #[test]
    fn a_network_is_one_client() {
        let mut random = StdRng::seed_from_u64(8);
        for _ in 0..2_000 {
            let (IpAddr::V6(address), bits) =
                (IpAddr::from(random.random::<[u8; 16]>()), random.random_range(1..=128))
            else {
                continue;
            };
            let client = ClientAddress::default().ipv6_prefix(bits).unwrap();
            let key = client.key(&address.to_string(), [""; 0]);
            let host = if bits == 128 { 0 } else { random.random::<u128>() >> bits };
            let neighbour = Ipv6Addr::from(u128::from(address) ^ host);
            assert_eq!(client.key(&format!("[{neighbour}]:1"), [""; 0]), key);
            let other = Ipv6Addr::from(u128::from(address) ^ (1 << (128 - bits)));
            assert_ne!(client.key(&other.to_string(), [""; 0]), key);
        }
    }

    #[test]
    fn work_is_bounded() {
        let client = behind(&["10.0.0.0/8"]).header(ForwardedHeader::Forwarded);
        let long = "for=10.0.0.1,".repeat(1 << 20);
        let open = format!("for=\"{}", "\\\"".repeat(1 << 20));
        let lines = vec!["for=10.0.0.1"; 1 << 16];
        let started = std::time::Instant::now();
        for _ in 0..100 {
            client.key("10.0.0.1", [&long]);
            client.key("10.0.0.1", [&open]);
        }
        client.key("10.0.0.1", &lines);
        // Reading it all once takes longer than this for all of it.
        assert!(started.elapsed() < std::time::Duration::from_secs(10));
    }

    #[derive(serde::Deserialize)]
    struct Cases {
        cases: Vec<Case>,
    }

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Case {
        name: String,
        trusted: Vec<String>,
        header: Option<String>,
        ipv4_prefix: Option<i64>,
        ipv6_prefix: Option<i64>,
        #[serde(default)]
        peer: String,
        #[serde(default)]
        values: Vec<String>,
        key: Option<String>,
        error_contains: Option<String>,
    }

    impl Case {
        fn client(&self) -> Result<ClientAddress> {
            let mut client = ClientAddress::new(&self.trusted)?;
            if let Some(header) = &self.header {
                client = client.header(header.parse()?);
            }
            if let Some(bits) = self.ipv4_prefix {
                client = client.ipv4_prefix(bits)?;
            }
            if let Some(bits) = self.ipv6_prefix {
                client = client.ipv6_prefix(bits)?;
            }
            Ok(client)
        }
    }

    #[test]
    fn the_cases_that_every_language_runs() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/addresses.json");
        let cases: Cases = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(cases.cases.len() > 50);
        for case in cases.cases {
            match (case.client(), &case.error_contains) {
                (Ok(client), None) => {
                    assert_eq!(Some(client.key(&case.peer, &case.values)), case.key, "{}", case.name);
                }
                (Err(error), Some(contains)) => {
                    assert_eq!(error.kind(), ErrorKind::Config, "{}", case.name);
                    assert!(error.message().contains(contains), "{}: {error}", case.name);
                }
                (got, _) => panic!("{}: {got:?}", case.name),
            }
        }
    }
}
