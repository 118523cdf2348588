//! Gives the shared library the name under which programs look for it.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let major = variable("CARGO_PKG_VERSION_MAJOR");
    if variable("CARGO_CFG_TARGET_VENDOR") == "apple" {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libsluicegate.{major}.dylib");
    } else if variable("CARGO_CFG_TARGET_FAMILY") == "unix" {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsluicegate.so.{major}");
        // The library has a thread of its own, whose code must not be unmapped by dlclose.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
