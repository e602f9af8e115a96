//! Detection of AMX (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18), whose tiles a
//! system gives to processes that ask for them.
#![allow(unsafe_code)]

/// Returns whether this machine has AMX for bytes and bf16, and the system lets this process use it.
pub(super) fn has_amx() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // CPUID, leaf 7: EDX has a bit for AMX's bf16, tiles and 8 bits.
    const NEEDED: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & NEEDED == NEEDED && ask()
}

/// Asks the system for the tiles.
#[cfg(target_os = "linux")]
fn ask() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_int = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_ulong = 18;
    // SAFETY: the call takes two whole numbers and touches no memory of this process; an old kernel refuses it.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

/// Other systems are not asked.
#[cfg(not(target_os = "linux"))]
fn ask() -> bool {
    false
}
