//! Manual pages that are made of the tools' command lines.

/// Checks that `man/NAME.1` is the page of `command`; writes it when `NEARMPI_BLESS` is set.
pub fn is_fresh(name: &str, command: clap::Command) {
    let path = format!("{}/man/{name}.1", env!("CARGO_MANIFEST_DIR"));
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.version("")).date("");
    man.render(&mut page).unwrap();
    // The last section would have the version, and would have to be written anew with each.
    let section = b".SH VERSION\n";
    if let Some(at) = page.windows(section.len()).position(|window| window == section) {
        page.truncate(at);
    }
    if std::env::var_os("NEARMPI_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read(&path).unwrap_or_default();
    assert!(
        committed == page,
        "{path} is stale; run NEARMPI_BLESS=1 cargo test generated"
    );
}
