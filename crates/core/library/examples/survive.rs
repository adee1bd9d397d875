//! The state after a crash: everything that was synced, and of a file that was replaced
//! either the old or the new content, never a mixture.
//!
//! ```sh
//! cargo run --example survive [IMAGE]
//! ```

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;
use varve::Volume;

const OLD: &str = "the old settings\n";
const NEW: &str = "the new settings, which are longer\n";

fn main() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let image = env::args_os().nth(1).map(PathBuf::from);
    let image = image.unwrap_or_else(|| scratch.path().join("survive.img"));

    let volume = Volume::create(&image, 64 << 20)?;
    volume.create_dir("/orders")?;
    volume.write("/settings", OLD)?;
    volume.sync()?;

    // The first order is durable before it is acknowledged, the second is not.
    volume.write("/orders/1", "ten bottles of ink")?;
    volume.open_file("/orders/1")?.sync_all()?;
    volume.write("/settings.new", NEW)?;
    volume.rename("/settings.new", "/settings")?;
    volume.write("/orders/2", "never acknowledged")?;

    // Like a power cut: nothing more is written.
    volume.abandon();

    let begun = Instant::now();
    let volume = Volume::open(&image)?;
    println!("recovered in {:?}", begun.elapsed());
    let order = volume.read_to_string("/orders/1")?;
    assert_eq!(order, "ten bottles of ink");
    let settings = volume.read_to_string("/settings")?;
    assert!(settings == OLD || settings == NEW, "torn: {settings:?}");
    for entry in volume.walk("/")? {
        let entry = entry?;
        println!("{:>4} {}", entry.metadata()?.len(), entry.path().display());
    }
    volume.close()?;
    Ok(())
}
