//! The handshake: fixed newstyle, without encryption.
//!
//! Invariants:
//! - The handshake ends within its time limit, whatever the client sends or omits, and
//!   needs memory for at most one option's data.
//! - Both options that begin transmission describe an export in the same terms.

use std::time::Instant;

use zerocopy::{IntoBytes, transmute};

use crate::export::Export;
use crate::options::{info_request, meta_request};
use crate::protocol::{
    ALLOCATION, ALLOCATION_ID, FIXED_NEWSTYLE, GREETING_MAGIC, Greeting, NO_ZEROES, OPTION_MAGIC,
    OPTION_REPLY_MAGIC, OptionHeader, OptionReply, PADDING_BYTES, answer, info, option,
};
use crate::receiver::{Ended, Received, Receiver};
use crate::request::Measures;
use crate::sender::send_all;
use crate::transport::Transport;

/// Maximum number of bytes of an option's data.
const OPTION_BYTES_MAX: usize = 64 << 10;
/// Maximum number of options in one handshake.
const OPTIONS_MAX: usize = 1000;

/// The state of a handshake.
struct Handshake<'a> {
    transport: &'a dyn Transport,
    receiver: &'a mut Receiver,
    export: &'a Export,
    deadline: Instant,
    structured: bool,
    allocation: bool,
}

/// The step that follows an option.
enum Next {
    Another,
    Transmission,
}

/// Makes the handshake with a client, and returns the agreed parameters of its
/// requests.
pub(crate) fn negotiate(
    transport: &dyn Transport,
    receiver: &mut Receiver,
    export: &Export,
    deadline: Instant,
) -> Received<Measures> {
    let mut handshake = Handshake {
        transport,
        receiver,
        export,
        deadline,
        structured: false,
        allocation: false,
    };
    let greeting = Greeting {
        magic: GREETING_MAGIC.into(),
        style: OPTION_MAGIC.into(),
        flags: (FIXED_NEWSTYLE | NO_ZEROES).into(),
    };
    send_all(transport, greeting.as_bytes())?;
    let flags = u32::from_be_bytes(handshake.message()?);
    if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
        return broken(format!(
            "sent client flags {flags:#x}, which nobody offered"
        ));
    }
    let padding = flags & u32::from(NO_ZEROES) == 0;
    for _ in 0..OPTIONS_MAX {
        if let Next::Transmission = handshake.option(padding)? {
            return Ok(export.measures(handshake.structured, handshake.allocation));
        }
    }
    broken(format!("sent {OPTIONS_MAX} options and did not begin"))
}

fn broken<T>(what: String) -> Received<T> {
    Err(Ended::Broken(what))
}

impl Handshake<'_> {
    fn message<const N: usize>(&mut self) -> Received<[u8; N]> {
        self.receiver
            .message(self.transport, || false, Some(self.deadline))
    }

    /// Receives one option and answers it.
    fn option(&mut self, padding: bool) -> Received<Next> {
        let bytes: [u8; size_of::<OptionHeader>()] = self.message()?;
        let header: OptionHeader = transmute!(bytes);
        if header.magic.get() != OPTION_MAGIC {
            return broken("sent an option without its magic number".into());
        }
        let (kind, length) = (header.option.get(), header.length.get() as usize);
        if length > OPTION_BYTES_MAX {
            return broken(format!("sent {length} bytes of option {kind}"));
        }
        let mut data = vec![0; length];
        self.receiver
            .fill(self.transport, &mut data, Some(self.deadline))?;
        match kind {
            option::EXPORT_NAME => self.export_name(&data, padding),
            option::ABORT => {
                // The client may have closed the connection already.
                let _ = self.answer(kind, answer::ACK, &[]);
                Err(Ended::Closed)
            }
            option::GO | option::INFO => self.describe(kind, &data),
            option::LIST => self.list(&data),
            option::STRUCTURED_REPLY => match length {
                0 => {
                    self.structured = true;
                    self.answer(kind, answer::ACK, &[])
                }
                _ => self.answer(kind, answer::ERR_INVALID, b"it has no data"),
            },
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(kind, &data),
            _ => self.answer(kind, answer::ERR_UNSUP, b"not known here"),
        }
    }

    fn answer(&mut self, option: u32, kind: u32, data: &[u8]) -> Received<Next> {
        let header = OptionReply {
            magic: OPTION_REPLY_MAGIC.into(),
            option: option.into(),
            kind: kind.into(),
            length: (data.len() as u32).into(),
        };
        send_all(self.transport, &[header.as_bytes(), data].concat())?;
        Ok(Next::Another)
    }

    fn export_name(&mut self, name: &[u8], padding: bool) -> Received<Next> {
        if !self.export.is_called(name) {
            // This option cannot report an error.
            return broken(format!("asked for {}", shown(name)));
        }
        let mut bytes = self.size_and_flags().to_vec();
        if padding {
            bytes.resize(bytes.len() + PADDING_BYTES, 0);
        }
        send_all(self.transport, &bytes)?;
        Ok(Next::Transmission)
    }

    fn size_and_flags(&self) -> [u8; 10] {
        let size = self.export.measures(false, false).size;
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&size.to_be_bytes());
        bytes[8..].copy_from_slice(&self.export.flags(self.structured).to_be_bytes());
        bytes
    }

    fn describe(&mut self, option: u32, data: &[u8]) -> Received<Next> {
        let Some(request) = info_request(data) else {
            return self.answer(option, answer::ERR_INVALID, b"malformed");
        };
        if !self.export.is_called(request.name) {
            let why = format!("{} is not exported here", shown(request.name));
            return self.answer(option, answer::ERR_UNKNOWN, why.as_bytes());
        }
        let item = |kind: u16, bytes: &[u8]| [&kind.to_be_bytes(), bytes].concat();
        let mut items = vec![item(info::EXPORT, &self.size_and_flags())];
        let sizes: Vec<u8> = self
            .export
            .block_sizes()
            .iter()
            .flat_map(|size| size.to_be_bytes())
            .collect();
        // These are sent without being requested, because requests are checked against
        // them.
        items.push(item(info::BLOCK_SIZE, &sizes));
        for (kind, text) in [
            (info::NAME, self.export.name()),
            (info::DESCRIPTION, self.export.description()),
        ] {
            if request.kinds.contains(&kind) {
                items.push(item(kind, text.as_bytes()));
            }
        }
        for item in &items {
            self.answer(option, answer::INFO, item)?;
        }
        self.answer(option, answer::ACK, &[])?;
        Ok(match option {
            option::GO => Next::Transmission,
            _ => Next::Another,
        })
    }

    fn list(&mut self, data: &[u8]) -> Received<Next> {
        if !data.is_empty() {
            return self.answer(option::LIST, answer::ERR_INVALID, b"it has no data");
        }
        let name = self.export.name().as_bytes();
        let length = (name.len() as u32).to_be_bytes();
        let entry = [&length, name, self.export.description().as_bytes()].concat();
        self.answer(option::LIST, answer::SERVER, &entry)?;
        self.answer(option::LIST, answer::ACK, &[])
    }

    fn contexts(&mut self, option: u32, data: &[u8]) -> Received<Next> {
        let set = option == option::SET_META_CONTEXT;
        if set {
            // The selection is cleared also if the option fails.
            self.allocation = false;
        }
        let Some(request) = meta_request(data) else {
            return self.answer(option, answer::ERR_INVALID, b"malformed");
        };
        if !self.structured {
            let why = b"ask for structured replies first";
            return self.answer(option, answer::ERR_INVALID, why);
        }
        if !self.export.is_called(request.name) {
            let why = format!("{} is not exported here", shown(request.name));
            return self.answer(option, answer::ERR_UNKNOWN, why.as_bytes());
        }
        let (found, id) = match set {
            true => (request.selects(), ALLOCATION_ID),
            false => (request.lists(), 0),
        };
        if found {
            let context = [&id.to_be_bytes(), ALLOCATION.as_bytes()].concat();
            self.answer(option, answer::META_CONTEXT, &context)?;
        }
        self.allocation |= set && found;
        self.answer(option, answer::ACK, &[])
    }
}

/// Returns a client's name of an export in a short and printable form.
fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(&name[..name.len().min(64)]);
    format!("the export {text:?}")
}
