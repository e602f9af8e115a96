//! Writes inputs that are right to `server/fuzz/seeds`: a folder for each target.

fn main() -> std::io::Result<()> {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for target in dpr_fuzz::TARGETS {
        let folder = seeds.join(target.name);
        fs_err::create_dir_all(&folder)?;
        for (name, bytes) in (target.valid)() {
            fs_err::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}
