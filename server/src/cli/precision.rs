//! The option `--precision` of every command that encodes.

use dpr_core::Precision;

/// Option of the commands that encode texts.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct PrecisionArgs {
    /// Numbers that encoders multiply on the CPU: f32, bf16 (fast with AVX-512 BF16) or int8 (fast with AVX-512 VNNI);
    /// vectors of every precision can be compared with each other
    #[arg(long, env = "DPR_PRECISION", value_name = "PRECISION", default_value = "f32")]
    pub(super) precision: Precision,
}
