//! What zstd has compressed: one frame behind the other, as pzstd(1) writes them
//! and cat(1) joins them. Frames that hold no text are passed over.

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{BufRead, Error, Read, Result, copy, sink};

/// Whether a file begins so that zstd has compressed.
pub fn is_zstd(beginning: &[u8]) -> bool {
    matches!(
        beginning,
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]
    )
}

/// The text of all frames.
pub struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> Frames<R> {
    /// Of what begins with a frame.
    pub fn of(source: R) -> Self {
        Frames {
            source,
            decoder: FrameDecoder::new(),
        }
    }

    /// Goes on to the next frame, or past one without text.
    fn begin(&mut self) -> Result<()> {
        match self.decoder.init(&mut self.source) {
            Ok(()) => Ok(()),
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let passed = copy(&mut self.source.by_ref().take(length.into()), &mut sink())?;
                match passed == u64::from(length) {
                    true => Ok(()),
                    false => Err(Error::other("a frame is cut short")),
                }
            }
            Err(error) => Err(Error::other(error.to_string())),
        }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            let mut has = self.decoder.can_collect();
            while has < into.len() && !self.decoder.is_finished() {
                let wanted = BlockDecodingStrategy::UptoBytes(into.len() - has);
                let decoded = self.decoder.decode_blocks(&mut self.source, wanted);
                decoded.map_err(|error| Error::other(error.to_string()))?;
                has = self.decoder.can_collect();
            }
            let bytes = self.decoder.read(into)?;
            if bytes > 0 || into.is_empty() || self.source.fill_buf()?.is_empty() {
                return Ok(bytes);
            }
            self.begin()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of one block that is stored as it is.
    fn frame(text: &[u8]) -> Vec<u8> {
        let length = text.len() as u8;
        let block = (u32::from(length) << 3 | 1).to_le_bytes();
        let head = [0x28, 0xb5, 0x2f, 0xfd, 0x20, length];
        [&head[..], &block[..3], text].concat()
    }

    fn read(bytes: &[u8]) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        Frames::of(bytes).read_to_end(&mut text)?;
        Ok(text)
    }

    #[test]
    fn every_frame_is_read() {
        let passed = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        let (first, second) = (frame(b"one "), frame(b"two"));
        let all = [&passed[..], &first, &frame(b""), &passed, &second, &passed].concat();
        assert_eq!(read(&all).unwrap(), b"one two");
        assert!(is_zstd(&all) && is_zstd(&first) && !is_zstd(b"one"));
        for cut in 1..second.len() {
            let cut = [&first[..], &second[..cut]].concat();
            assert!(read(&cut).is_err(), "{cut:?}");
        }
        assert!(read(&[&first[..], b"rubbish"].concat()).is_err());
        assert!(read(&passed[..10]).is_err());
    }
}
