//! Instruction sets of the kernels, and the one place that enters code compiled for them.
//!
//! A kernel is plain safe Rust over fixed-size arrays, written once as a [`Task`] whose `run` is
//! `#[inline(always)]`. [`Isa::run`] inlines it into a function that enables the instruction set, where LLVM
//! turns its loops into that set's vector instructions: no kernel is written twice.

use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use super::amx::has_amx;
#[cfg(not(target_arch = "wasm32"))]
use super::dot::{Bf16, Dot, Pairs, RowDots, Shorts, WholeDot};
#[cfg(target_arch = "x86_64")]
use super::dot::{NativeBf16, NativeBytes};
#[cfg(target_arch = "x86_64")]
use super::vector::{Avx2, Avx512};
use super::vector::{Portable, Simd};

/// Tile sizes and arithmetic of one instruction set, as const parameters of [`Task::run`]:
///
/// * `S`: vectors;
/// * `NR`: columns of a weight panel, so the width of a matrix product's tile;
/// * `NA`: the same for the products inside attention, whose sizes are heads and tokens;
/// * `MR`: rows of a tile at most; `MR * NR` sums plus operands fill the vector registers.
pub(super) trait Task {
    /// The result of the task.
    type Output;
    /// Runs the task. Must be `#[inline(always)]`, with all it calls in its loops: a function that is not
    /// inlined here is compiled for the baseline instruction set.
    fn run<S: Simd, const NR: usize, const NA: usize, const MR: usize>(self) -> Self::Output;
}

/// A matrix product of words of narrow numbers, with the parameters of [`Task::run`] and the multiplication `D`.
#[cfg(not(target_arch = "wasm32"))]
pub(super) trait DotTask {
    /// Runs the task. Must be `#[inline(always)]`, as [`Task::run`].
    fn run<S: Simd, D: Dot<Number = u32>, const NR: usize, const MR: usize>(self);
}

/// A product of two matrices of bytes with whole sums, of all inputs or of groups of them: `NR` columns of a panel,
/// `MR` rows of a tile at most.
#[cfg(not(target_arch = "wasm32"))]
pub(super) trait WholeTask {
    /// Runs the task. Must be `#[inline(always)]`, as [`Task::run`].
    fn run<D: WholeDot, const NR: usize, const MR: usize>(self);
}

/// Inner products of a query with rows of 8-bit numbers or of signs.
#[cfg(not(target_arch = "wasm32"))]
pub(super) trait RowTask {
    /// The result of the task.
    type Output;
    /// Runs the task. Must be `#[inline(always)]`, as [`Task::run`].
    fn run<D: RowDots>(self) -> Self::Output;
}

/// Runs a block of code compiled for an instruction set: `vectorised!(isa, |a: &[f32], b: &[f32]| -> f32 { .. })`.
///
/// The names before the block are variables of the caller, which the block takes. In the block `S`, `NR`, `NA` and
/// `MR` are the parameters of [`Task::run`]; the functions that the block calls in its loops must be
/// `#[inline(always)]`.
macro_rules! vectorised {
    ($isa:expr, || -> $output:ty $body:block) => {
        vectorised!($isa, | | -> $output $body)
    };
    ($isa:expr, |$($name:ident: $type:ty),* $(,)?| $body:block) => {
        vectorised!($isa, |$($name: $type),*| -> () $body)
    };
    ($isa:expr, |$($name:ident: $type:ty),* $(,)?| -> $output:ty $body:block) => {{
        // Each field has a type parameter of its own name, so that the references need no named lifetimes.
        #[allow(non_camel_case_types)]
        struct Kernel<$($name),*> {
            $($name: $name),*
        }
        impl $crate::kernel::isa::Task for Kernel<$($type),*> {
            type Output = $output;
            #[inline(always)]
            fn run<S: $crate::kernel::vector::Simd, const NR: usize, const NA: usize, const MR: usize>(
                self,
            ) -> $output {
                let Self { $($name),* } = self;
                $body
            }
        }
        $isa.run(Kernel { $($name),* })
    }};
}
pub(super) use vectorised;

/// The largest `MR` of any instruction set.
pub(super) const MAX_MR: usize = 7;

/// `MR` of what the target guarantees. Engines of browsers have fifteen vector registers on x86-64, and a product that is
/// not added by the same instruction takes one of them.
const PORTABLE_ROWS: usize = if cfg!(target_arch = "wasm32") { 4 } else { 6 };

/// An instruction set that this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Isa(Kind);

/// Private, so that an [`Isa`] other than portable comes only from a feature test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The instructions that the target guarantees: SSE2 on x86-64, SIMD128 in a browser module, with relaxed SIMD in
    /// the one that is for engines which have it.
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512, and whether there is AVX-512 BF16, AVX-512 VNNI and AMX.
    #[cfg(target_arch = "x86_64")]
    Avx512 { bf16: bool, vnni: bool, tiles: bool },
}

/// Returns the best instruction set of this machine, looked up once.
pub(super) fn best() -> Isa {
    static BEST: OnceLock<Isa> = OnceLock::new();
    *BEST.get_or_init(Isa::detect)
}

impl Isa {
    /// Returns the best instruction set of this machine.
    pub(super) fn detect() -> Self {
        *Self::available().last().unwrap_or(&Self(Kind::Portable))
    }

    /// Returns every instruction set of this machine, the best one last.
    pub(super) fn available() -> Vec<Self> {
        #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
        let mut found = vec![Self(Kind::Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("popcnt");
            if avx2 {
                found.push(Self(Kind::Avx2));
            }
            if avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
            {
                let bf16 = is_x86_feature_detected!("avx512bf16");
                let vnni = is_x86_feature_detected!("avx512vnni");
                found.push(Self(Kind::Avx512 { bf16: false, vnni: false, tiles: false }));
                if bf16 || vnni {
                    found.push(Self(Kind::Avx512 { bf16, vnni, tiles: false }));
                }
                if bf16 && vnni && has_amx() {
                    found.push(Self(Kind::Avx512 { bf16, vnni, tiles: true }));
                }
            }
        }
        found
    }

    /// Returns the width `NR` of the weight panels that [`Isa::run`] will pass to its tasks.
    pub(super) fn panel_width(self) -> usize {
        vectorised!(self, || -> usize { NR })
    }

    /// Runs a task compiled for this instruction set.
    #[allow(unsafe_code)]
    pub(super) fn run<T: Task>(self, task: T) -> T::Output {
        match self.0 {
            Kind::Portable => run_portable(task),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `available` makes this kind only after it found AVX2, FMA, F16C and POPCNT on this machine.
            Kind::Avx2 => unsafe { run_avx2(task) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `available` makes this kind only after it found all of these features on this machine.
            Kind::Avx512 { .. } => unsafe { run_avx512(task) },
        }
    }

    /// Returns whether this set has AVX-512 VNNI.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn has_vnni(self) -> bool {
        matches!(self.0, Kind::Avx512 { vnni: true, .. })
    }

    /// Returns whether this set has AVX-512 BF16.
    #[cfg(all(test, target_arch = "x86_64"))]
    pub(super) fn has_bf16(self) -> bool {
        matches!(self.0, Kind::Avx512 { bf16: true, .. })
    }

    /// Returns whether this set has AMX, and the system lets this process use it.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn has_tiles(self) -> bool {
        matches!(self.0, Kind::Avx512 { tiles: true, .. })
    }

    /// Runs a product of two matrices of bytes, of which one has no sign, with whole sums.
    #[cfg(not(target_arch = "wasm32"))]
    #[allow(unsafe_code)]
    pub(super) fn run_whole<T: WholeTask>(self, task: T) {
        match self.0 {
            Kind::Portable => task.run::<Shorts<Portable>, 8, 4>(),
            // SAFETY: `available` makes each kind only after it found its features on this machine.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { run_avx2_whole(task) },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 { vnni: true, .. } => unsafe { run_avx512_vnni_whole(task) },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 { .. } => unsafe { run_avx512_whole(task) },
        }
    }

    /// Returns the width `NR` of the panels that [`Isa::run_whole`] will pass to its tasks.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn whole_width(self) -> usize {
        match self.0 {
            Kind::Portable => 8,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => 16,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 { vnni: true, .. } => 64,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 { .. } => 32,
        }
    }

    /// Returns the [`WholeDot::PARTS`] of the products that [`Isa::run_whole`] and [`Isa::run_bytes`] run.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn whole_parts(self) -> usize {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 { vnni: true, .. } => NativeBytes::PARTS,
            _ => Shorts::<Portable>::PARTS,
        }
    }

    /// Runs inner products of a query with rows of 8-bit numbers or of signs.
    #[cfg(not(target_arch = "wasm32"))]
    #[allow(unsafe_code)]
    pub(super) fn run_rows<T: RowTask>(self, task: T) -> T::Output {
        match self.0 {
            Kind::Portable => task.run::<Pairs>(),
            // SAFETY: `available` makes each kind only after it found its features on this machine.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { run_avx2_rows(task) },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 { vnni: true, .. } => unsafe { run_avx512_vnni_rows(task) },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 { .. } => unsafe { run_avx512_rows(task) },
        }
    }

    /// Runs a product of words of two numbers in bf16.
    #[cfg(not(target_arch = "wasm32"))]
    #[allow(unsafe_code)]
    pub(super) fn run_bf16<T: DotTask>(self, task: T) {
        match self.0 {
            Kind::Portable => task.run::<Portable, Bf16<Portable>, 8, 4>(),
            // SAFETY: `available` makes each kind only after it found its features on this machine.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { run_avx2_words(task) },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 { bf16: true, .. } => unsafe { run_avx512_bf16(task) },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 { .. } => unsafe { run_avx512_words(task) },
        }
    }

    /// Runs products of words of two numbers in bf16 by AVX-512 BF16; returns the task where this set has none.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    pub(super) fn run_native_bf16<T: DotTask>(self, task: T) -> Result<(), T> {
        match self.0 {
            // SAFETY: `available` makes this kind only after it found all of these features on this machine.
            Kind::Avx512 { bf16: true, .. } => unsafe { run_avx512_bf16(task) },
            _ => return Err(task),
        }
        Ok(())
    }

    /// Runs a product of inputs in 8 bits without a sign with weights in 8 bits with one, whose
    /// sums over groups of inputs are whole numbers. The panels are those of [`Isa::panel_width`].
    #[cfg(not(target_arch = "wasm32"))]
    #[allow(unsafe_code)]
    pub(super) fn run_bytes<T: WholeTask>(self, task: T) {
        match self.0 {
            Kind::Portable => task.run::<Shorts<Portable>, 8, 4>(),
            // SAFETY: `available` makes each kind only after it found its features on this machine.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { run_avx2_whole(task) },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 { vnni: true, .. } => unsafe { run_avx512_vnni_bytes(task) },
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 { .. } => unsafe { run_avx512_bytes(task) },
        }
    }
}

#[cfg_attr(all(target_arch = "wasm32", feature = "relaxed-simd"), target_feature(enable = "relaxed-simd"))]
fn run_portable<T: Task>(task: T) -> T::Output {
    task.run::<Portable, 8, 8, PORTABLE_ROWS>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,popcnt")]
fn run_avx2<T: Task>(task: T) -> T::Output {
    task.run::<Avx2, 16, 16, 6>()
}

// Tiles of AVX-512, here and below: with a row more the 32 registers would do, but the compiler keeps sums on the
// stack, since it loads the weights of several inputs first.

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c,popcnt")]
fn run_avx512<T: Task>(task: T) -> T::Output {
    task.run::<Avx512, 48, 32, 7>()
}

// Where words are widened first, the registers hold fewer rows.

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,popcnt")]
fn run_avx2_words<T: DotTask>(task: T) {
    task.run::<Avx2, Bf16<Avx2>, 16, 4>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c,popcnt")]
fn run_avx512_words<T: DotTask>(task: T) {
    task.run::<Avx512, Bf16<Avx512>, 48, 6>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512bf16,avx512f,avx512bw,avx512vl,avx2,fma,f16c,popcnt")]
fn run_avx512_bf16<T: DotTask>(task: T) {
    task.run::<Avx512, NativeBf16, 48, 7>();
}

// The sums of a group are in registers, those of the groups before it in memory.

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma,f16c,popcnt")]
fn run_avx512_vnni_bytes<T: WholeTask>(task: T) {
    task.run::<NativeBytes, 48, 6>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c,popcnt")]
fn run_avx512_bytes<T: WholeTask>(task: T) {
    task.run::<Shorts<Avx512>, 48, 6>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,popcnt")]
fn run_avx2_whole<T: WholeTask>(task: T) {
    task.run::<Shorts<Avx2>, 16, 6>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c,popcnt")]
fn run_avx512_whole<T: WholeTask>(task: T) {
    task.run::<Shorts<Avx512>, 32, 6>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma,f16c,popcnt")]
fn run_avx512_vnni_whole<T: WholeTask>(task: T) {
    task.run::<NativeBytes, 64, 5>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,popcnt")]
fn run_avx2_rows<T: RowTask>(task: T) -> T::Output {
    task.run::<Pairs>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c,popcnt")]
fn run_avx512_rows<T: RowTask>(task: T) -> T::Output {
    task.run::<Pairs>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma,f16c,popcnt")]
fn run_avx512_vnni_rows<T: RowTask>(task: T) -> T::Output {
    task.run::<NativeBytes>()
}
