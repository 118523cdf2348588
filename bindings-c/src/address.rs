//! Who the client is behind proxies.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use sluicegate::{ClientAddress, ErrorKind, ForwardedHeader, Result};

use crate::convert::{UNSET, array, fill, out, owned_text, reference, text};
use crate::result::{guard, guard_quietly, sg_result};

/// A buffer of this size holds every key that sg_client_address_key writes.
pub const SG_CLIENT_ADDRESS_KEY_SIZE: usize = 64;

/// Turns a request's peer and header into a key that says who the client is, and that a client can't
/// choose.
///
/// A proxy that is trusted says in a header from whom it got the request. The header is read from its
/// end, one hop after the other, for as long as the hop that said it is trusted; the first address that
/// is not is the client. Without trusted proxies no header is read.
pub struct sg_client_address {
    client: ClientAddress,
    header: CString,
}

/// Makes one from the `count` proxies that are trusted: addresses, networks such as "10.0.0.0/8", or
/// the presets "loopback", "linklocal", "uniquelocal" (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16,
/// fc00::/7) and "unix" (peers without an address, as on a Unix socket); at most 4096. Every machine in
/// them can choose its key, so name what your proxies have and nothing else.
///
/// `header` is the one header that these proxies set, "x-forwarded-for" or "forwarded"; NULL is the
/// first. The other is never read, as proxies pass it on unseen. `ipv4_prefix` and `ipv6_prefix` are how
/// many leading bits of an address name a client, 1 to 32 and 1 to 128; -1 is 32 and 64.
/// sg_client_address_free frees it.
///
/// SG_ERR_CONFIG for what is none of these, and for a network of all addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_client_address_new(
    trusted: *const *const c_char,
    count: usize,
    header: *const c_char,
    ipv4_prefix: i32,
    ipv6_prefix: i32,
    client: *mut *mut sg_client_address,
) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        let (trusted, place) = unsafe { (array("trusted", trusted, count)?, out("client", client)?) };
        let networks: Result<Vec<&str>> = trusted
            .iter()
            // SAFETY: the caller's promise.
            .map(|each| unsafe { text("trusted[]", *each, ErrorKind::Config) })
            .collect();
        let mut client = ClientAddress::new(networks?)?;
        if !header.is_null() {
            // SAFETY: the caller's promise.
            let header = unsafe { text("header", header, ErrorKind::Config) }?;
            client = client.header(header.parse::<ForwardedHeader>()?);
        }
        if i64::from(ipv4_prefix) != UNSET {
            client = client.ipv4_prefix(ipv4_prefix.into())?;
        }
        if i64::from(ipv6_prefix) != UNSET {
            client = client.ipv6_prefix(ipv6_prefix.into())?;
        }
        let header = owned_text(client.header_name())?;
        place.write(Box::into_raw(Box::new(sg_client_address { client, header })));
        Ok(())
    })
}

/// The name of the header whose values sg_client_address_key wants, in lower case. Valid until it is
/// freed; NULL where `client` is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_client_address_header(client: *const sg_client_address) -> *const c_char {
    let mut header = ptr::null();
    guard(|| {
        // SAFETY: the caller's promise.
        header = unsafe { reference("client", client) }?.header.as_ptr();
        Ok(())
    });
    header
}

/// Writes who the client is to `buffer`: "203.0.113.7", or "2001:db8:1:2::/64" where a prefix groups
/// addresses.
///
/// `peer` is the address of the connection's other end, with or without port, brackets or zone; NULL
/// where it has none. `values` are the `count` values of the header, in the order in which they came.
/// What is no address in them ends the walk at the last trusted proxy, and is no error. A peer without
/// an address is "unknown", unless it is trusted ("unix") and the header names a client.
///
/// `buffer`, `size` and `length` are as with sg_http_headers; SG_CLIENT_ADDRESS_KEY_SIZE is always
/// enough.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_client_address_key(
    client: *const sg_client_address,
    peer: *const c_char,
    values: *const *const c_char,
    count: usize,
    buffer: *mut c_char,
    size: usize,
    length: *mut usize,
) -> sg_result {
    guard(|| {
        // SAFETY: the caller's promise.
        let (client, values) = unsafe { (reference("client", client)?, array("values", values, count)?) };
        // SAFETY: the caller's promise.
        let values: Result<Vec<&[u8]>> =
            values.iter().map(|value| unsafe { bytes("values[]", *value) }).collect();
        // SAFETY: the caller's promise.
        let peer = if peer.is_null() { &[] } else { unsafe { bytes("peer", peer) }? };
        let key = client.client.key(&String::from_utf8_lossy(peer), values?);
        // SAFETY: the caller's promise.
        unsafe { fill(buffer, size, length, &key) }
    })
}

/// The bytes of a text that need not be UTF-8.
///
/// # Safety
/// The caller's promise.
unsafe fn bytes<'a>(name: &str, pointer: *const c_char) -> Result<&'a [u8]> {
    // SAFETY: as above.
    unsafe { reference(name, pointer)? };
    // SAFETY: as above.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// Frees it. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sg_client_address_free(client: *mut sg_client_address) {
    guard_quietly(|| {
        if !client.is_null() {
            // SAFETY: the caller's promise: it came from sg_client_address_new and is freed once.
            drop(unsafe { Box::from_raw(client) });
        }
    });
}
