//! An append during the flush of another thread's transaction, and a power cut at that
//! moment: rule 1 of `docs/spec/vlfs.md`.

use super::newest::Waiting;
use super::*;
use std::io::IoSlice;
use std::sync::Mutex;
use std::thread;
use varve_device::{Device, Geometry, MemoryImage};

type Work = Box<dyn FnOnce() + Send>;

/// A device that runs work during a flush, and keeps the image that a power cut in this
/// flush may leave: without the writes that the flush was to make durable, and with all
/// writes of the work.
#[derive(Default)]
struct Cut {
    during: Option<Work>,
    /// The image as of the last flush, with the writes of the work since.
    image: Option<MemoryImage>,
    working: bool,
}

struct Overtaken {
    inner: MemoryDevice,
    cut: Mutex<Cut>,
}

impl std::fmt::Debug for Overtaken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl Device for Overtaken {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> varve_device::Result<()> {
        self.inner.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> varve_device::Result<()> {
        let mut cut = self.cut.lock().unwrap();
        if let (true, Some(image)) = (cut.working, &mut cut.image) {
            let mut at = offset;
            for buffer in buffers {
                image.write(at, buffer);
                at += buffer.len() as u64;
            }
        }
        drop(cut);
        self.inner.write(offset, buffers)
    }

    fn flush(&self) -> varve_device::Result<()> {
        let work = self.cut.lock().unwrap().during.take();
        if let Some(work) = work {
            self.cut.lock().unwrap().working = true;
            thread::spawn(work).join().expect("no panic");
            self.cut.lock().unwrap().working = false;
        } else {
            self.cut.lock().unwrap().image.take();
        }
        self.inner.flush()
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

fn place(system: &System, file: InodeNo, block: u64) -> u64 {
    let found = system.layout().map(View::Live, file, block, 1).unwrap();
    found[0].pointer.sector
}

#[test]
fn an_append_during_a_flush_does_not_take_what_the_flush_gives_up() {
    let device = Arc::new(Overtaken {
        inner: MemoryDevice::new(8 << 20),
        cut: Mutex::default(),
    });
    let medium: Arc<dyn Medium> = Arc::new(InOrder(Arc::clone(&device)));
    let waiting = Arc::new(Waiting::on(&medium));
    let system = &waiting.system;
    let names = ["file", "gone", "rest", "other"];
    let [file, gone, rest, other] = names.map(|name| create(system, name));
    write(system, file, 0, &[1; 4096]).unwrap();
    system.sync().unwrap();
    let first = place(system, file, 0);
    // Places are chosen one behind the other: now the end of the volume is near, and
    // there is free space at the beginning.
    write(system, gone, 0, &vec![7; 3 << 20]).unwrap();
    system.sync().unwrap();
    write(system, rest, 0, &vec![7; 4 << 20]).unwrap();
    system.sync().unwrap();
    let root = Caller::root();
    system.unlink(&root, InodeNo::ROOT, b"gone").unwrap();
    system.sync().unwrap();
    write(system, file, 0, &[2; 4096]).unwrap();
    let overtaking = Arc::clone(&waiting);
    let appended = Arc::new(Mutex::new(Vec::new()));
    let places = Arc::clone(&appended);
    {
        let mut cut = device.cut.lock().unwrap();
        cut.image = Some(device.inner.snapshot());
        cut.during = Some(Box::new(move || {
            for block in 0..900 {
                let at = overtaking.append(other, block, 3).sector;
                let mut places = places.lock().unwrap();
                places.push(at);
                if at < places[0] && at >= first {
                    return;
                }
            }
        }));
    }
    system.fsync(file, false).unwrap();
    let appended = appended.lock().unwrap();
    let last = *appended.last().expect("a place");
    assert!(
        last < appended[0] && last >= first,
        "{first} was to be passed"
    );
    let left = device.cut.lock().unwrap().image.take().expect("a cut");
    let medium: Arc<dyn Medium> = Arc::new(InOrder(MemoryDevice::from_image(&left)));
    sound(&medium);
    assert!(
        read(&again(&medium), file, 0, 4096) == [1; 4096],
        "the state before, as the flush had not returned"
    );
    // If the flush did return, the state is the new one.
    drop(waiting);
    let now: Arc<dyn Medium> =
        Arc::new(InOrder(MemoryDevice::from_image(&device.inner.snapshot())));
    sound(&now);
    assert!(
        read(&again(&now), file, 0, 4096) == [2; 4096],
        "what was synced"
    );
}
