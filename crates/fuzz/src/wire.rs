//! What reads the bytes of a server.

use std::hint::black_box;

use walwright_wire::backend::{
    self, Authentication, BackendKeyData, CommandComplete, DataRow, ErrorFields,
    ParameterDescription, ParameterStatus, RowDescription, TransactionStatus,
};
use walwright_wire::{Scanner, TagSet};

use crate::Target;

/// Messages of a server, cut in two pieces.
pub(crate) const BACKEND: Target = Target { name: "backend", samples: answers, feed: messages };

pub(crate) fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    [&[tag][..], &length.to_be_bytes(), body].concat()
}

pub(crate) fn answers() -> Vec<Vec<u8>> {
    let login = [
        message(b'R', b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"),
        message(b'R', b"\0\0\0\x0br=abc,s=c2FsdA==,i=4096"),
        message(b'R', b"\0\0\0\0"),
        message(b'S', b"server_version\x0018.6\0"),
        message(b'K', b"\0\0\x01\x02secretsecret"),
        message(b'Z', b"I"),
    ];
    let query = [
        message(b'1', b""),
        message(b't', b"\0\x01\0\0\0\x17"),
        message(b'T', b"\0\x01id\0\0\0\x40\x01\0\x01\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0"),
        message(b'D', b"\0\x02\0\0\0\x0242\xff\xff\xff\xff"),
        message(b'C', b"INSERT 0 1\0"),
        message(b'E', b"SERROR\0VERROR\0C40001\0Mcould not\0P12\0\0"),
        message(b'N', b"SWARNING\0C01000\0Mx\0\0"),
        message(b'A', b"\0\0\0\x01ch\0payload\0"),
        message(b'Z', b"E"),
    ];
    vec![login.concat(), query.concat()]
}

fn messages(bytes: &[u8]) {
    // The first byte says where the stream is cut.
    let cut = bytes.first().map_or(0, |at| usize::from(*at)).min(bytes.len());
    let mut scanner = Scanner::backend().with_limit(1 << 20);
    let mut small = Scanner::frontend().with_limit(1 << 10);
    for mut piece in [&bytes[..cut], &bytes[cut..]] {
        let mut same = piece;
        while let Ok(Some(frame)) = scanner.next(&mut piece, backend::TAGS) {
            let Some(body) = frame.body else { continue };
            parse(frame.tag, body);
        }
        while let Ok(Some(frame)) = small.next(&mut same, TagSet::of(b"QPB")) {
            black_box(frame.length);
        }
    }
    for tag in b"RKCDEtSZT" {
        parse(*tag, bytes);
    }
}

fn parse(tag: u8, body: &[u8]) {
    match tag {
        backend::AUTHENTICATION => {
            let _ = Authentication::parse(body).map(|asked| black_box(asked.name()));
        }
        backend::BACKEND_KEY_DATA => drop(black_box(BackendKeyData::parse(body))),
        backend::COMMAND_COMPLETE => {
            let _ = CommandComplete::parse(body).map(|done| black_box(done.rows()));
        }
        backend::DATA_ROW => {
            let _ = DataRow::parse(body).map(|row| black_box(format!("{row:?}").len()));
        }
        backend::ERROR_RESPONSE | backend::NOTICE_RESPONSE => {
            let _ = ErrorFields::parse(body).map(|said| black_box(said.is_fatal()));
        }
        backend::PARAMETER_DESCRIPTION => drop(black_box(ParameterDescription::parse(body))),
        backend::PARAMETER_STATUS => drop(black_box(ParameterStatus::parse(body))),
        backend::READY_FOR_QUERY => drop(black_box(TransactionStatus::parse(body))),
        backend::ROW_DESCRIPTION => drop(black_box(RowDescription::parse(body))),
        _ => {}
    }
}
