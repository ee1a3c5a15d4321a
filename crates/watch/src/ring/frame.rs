//! Frames of a file that only grows: length, checksum, and JSON deflated.

use std::io::{self, BufReader, Read, Write};

use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// Length and checksum.
const HEAD: usize = 8;
/// No frame is longer; what says so is no frame.
const LONGEST: u32 = 64 << 20;

/// A frame of these bytes.
pub(super) fn frame(body: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(vec![0; HEAD], Compression::fast());
    encoder.write_all(body)?;
    let mut whole = encoder.finish()?;
    let length = u32::try_from(whole.len() - HEAD).ok().filter(|length| *length <= LONGEST);
    let length = length.ok_or_else(|| io::Error::other("more than one entry can hold"))?;
    let mut sum = Crc::new();
    sum.update(&whole[HEAD..]);
    whole[..4].copy_from_slice(&length.to_le_bytes());
    whole[4..HEAD].copy_from_slice(&sum.sum().to_le_bytes());
    Ok(whole)
}

/// The bodies of the frames of a file, up to the first that is not whole.
pub(super) struct Frames<R> {
    file: BufReader<R>,
    whole: u64,
    ended: bool,
}

impl<R: Read> Frames<R> {
    pub(super) fn new(file: R) -> Self {
        Frames { file: BufReader::new(file), whole: 0, ended: false }
    }

    /// Length of what was read that is whole.
    pub(super) fn whole(&self) -> u64 {
        self.whole
    }

    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut head = [0; HEAD];
        if !fill(&mut self.file, &mut head)? {
            return Ok(None);
        }
        let [l0, l1, l2, l3, s0, s1, s2, s3] = head;
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        if length == 0 || length > LONGEST {
            return Ok(None);
        }
        let mut deflated = Vec::new();
        let read = (&mut self.file).take(length.into()).read_to_end(&mut deflated)?;
        let mut sum = Crc::new();
        sum.update(&deflated);
        if read < length as usize || sum.sum() != u32::from_le_bytes([s0, s1, s2, s3]) {
            return Ok(None);
        }
        let mut body = Vec::new();
        if DeflateDecoder::new(&deflated[..]).read_to_end(&mut body).is_err() {
            return Ok(None);
        }
        self.whole += HEAD as u64 + u64::from(length);
        Ok(Some(body))
    }
}

impl<R: Read> Iterator for Frames<R> {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Whether there was enough to fill it.
fn fill(from: &mut impl Read, into: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(into) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}
