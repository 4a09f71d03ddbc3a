//! How `fndctl` is linked.

/// Relocations in a short form: a start applies 30,000 of them. glibc 2.36 knows it (Debian 12); the linker of an older
/// machine may not, so other architectures do without.
fn main() {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_ARCH", "x86_64") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
