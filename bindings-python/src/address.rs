//! Who the client is behind proxies.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use sluicegate as core;

use crate::argument::{Text, wrong_type};
use crate::error::{IntoPyResult, guard};

/// A number of leading bits, not checked yet.
pub(crate) struct Bits(i64);

impl<'py> FromPyObject<'_, 'py> for Bits {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.extract() {
            Ok(bits) => Ok(Bits(bits)),
            Err(failed) if failed.is_instance_of::<PyOverflowError>(object.py()) => Ok(Bits(i64::MAX)),
            Err(_) => Err(wrong_type("a prefix must be int", &object)),
        }
    }
}

/// Turns a request's peer and header into a key that says who the client is, and that a client
/// can't choose.
///
/// A proxy that is trusted says in a header from whom it got the request. The header is read from
/// its end, one hop after the other, for as long as the hop that said it is trusted; the first
/// address that is not is the client. Without trusted proxies no header is read.
///
/// trusted: addresses, networks such as ``"10.0.0.0/8"``, or the presets ``"loopback"``,
///     ``"linklocal"``, ``"uniquelocal"`` (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, fc00::/7) and
///     ``"unix"`` (peers without an address, as on a Unix socket); at most 4096. Every machine in
///     them can choose its key, so name what your proxies have and nothing else.
/// header: the one header that these proxies set, ``"x-forwarded-for"`` (the default) or
///     ``"forwarded"`` (RFC 7239). The other is never read, as proxies pass it on unseen.
/// ipv4_prefix: how many leading bits of an IPv4 address name a client, 1 to 32; 32 unless said.
/// ipv6_prefix: the same for IPv6, 1 to 128; 64 unless said, which is what one subscriber has.
///
/// Raises ``ConfigError`` for anything else.
#[pyclass(frozen, eq, module = "sluicegate")]
#[derive(PartialEq)]
pub(crate) struct ClientAddress(core::ClientAddress);

#[pymethods]
impl ClientAddress {
    #[new]
    #[pyo3(signature = (trusted=None, *, header=None, ipv4_prefix=None, ipv6_prefix=None))]
    fn new(
        py: Python<'_>,
        trusted: Option<&Bound<'_, PyAny>>,
        header: Option<Text<'_>>,
        ipv4_prefix: Option<Bits>,
        ipv6_prefix: Option<Bits>,
    ) -> PyResult<Self> {
        let networks = trusted.map(texts).transpose()?.unwrap_or_default();
        guard(py, || {
            let mut client = core::ClientAddress::new(networks).into_py(py)?;
            if let Some(Text(header)) = header {
                client = client.header(header.parse::<core::ForwardedHeader>().into_py(py)?);
            }
            if let Some(Bits(bits)) = ipv4_prefix {
                client = client.ipv4_prefix(bits).into_py(py)?;
            }
            if let Some(Bits(bits)) = ipv6_prefix {
                client = client.ipv6_prefix(bits).into_py(py)?;
            }
            Ok(ClientAddress(client))
        })
    }

    /// The name of the header whose values ``key`` wants, in lower case.
    #[getter]
    fn header(&self) -> &'static str {
        self.0.header_name()
    }

    /// Who the client is: ``"203.0.113.7"``, or ``"2001:db8:1:2::/64"`` where a prefix groups
    /// addresses.
    ///
    /// ``peer`` is the address of the connection's other end, with or without port, brackets or
    /// zone; None where it has none. ``header`` is the header's value, as ``str`` or ``bytes``, or an
    /// iterable of them in the order in which they came; None where there is none.
    ///
    /// It never fails for what they hold. What is no address in the header ends the walk at the last
    /// trusted proxy. A peer without an address is ``"unknown"``, unless it is trusted (``"unix"``)
    /// and the header names a client.
    #[pyo3(signature = (peer, header=None))]
    fn key(
        &self,
        py: Python<'_>,
        peer: Option<&Bound<'_, PyString>>,
        header: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let peer = peer.map(|peer| peer.to_string_lossy().into_owned()).unwrap_or_default();
        let values = header.map(values).transpose()?.unwrap_or_default();
        guard(py, || Ok(self.0.key(&peer, values)))
    }

    fn __repr__(&self) -> String {
        format!("ClientAddress(header='{}')", self.0.header_name())
    }
}

fn texts(given: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    // A text is an iterable of texts too, and would be one of single letters.
    if given.is_instance_of::<PyString>() {
        return Err(wrong_type("trusted must be an iterable of str", given));
    }
    given.try_iter()?.map(|each| each?.extract::<Text<'_>>().map(|text| text.0.to_owned())).collect()
}

fn values(given: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    match value(given) {
        Some(value) => Ok(vec![value]),
        None => given
            .try_iter()?
            .map(|each| {
                let each = each?;
                value(&each).ok_or_else(|| wrong_type("a header's value must be str or bytes", &each))
            })
            .collect(),
    }
}

/// A header's value. What no header can hold is nonsense there, not an error of the server's.
fn value(given: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    if let Ok(text) = given.cast::<PyString>() {
        Some(text.to_string_lossy().into_owned().into_bytes())
    } else {
        given.cast::<PyBytes>().ok().map(|bytes| bytes.as_bytes().to_vec())
    }
}
