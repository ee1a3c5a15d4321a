use proptest::prelude::*;

use super::*;
use crate::{Scanner, TagSet};

/// What PostgreSQL 18.6 answers to a fresh connection without a password.
const GREETING: &[u8] = b"R\0\0\0\x08\0\0\0\0S\0\0\0\x17in_hot_standby\0off\0\
    S\0\0\0\x19integer_datetimes\0on\0S\0\0\0\x18server_version\x0018.6\0\
    K\0\0\0\x0c\0\0E\xf7W\xaf\xe0\x19Z\0\0\0\x05I";

/// Its answer to Bind, Describe portal, Execute and Sync of a one-row SELECT
/// inside a transaction.
const ONE_ROW: &[u8] = b"2\0\0\0\x04T\0\0\0!\0\x01abalance\0\0\0@\x07\0\x03\0\0\0\x17\0\x04\
    \xff\xff\xff\xff\0\0D\0\0\0\x0e\0\x01\0\0\0\x044527C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05T";

/// Its answer to the Parse of a statement on a table that does not exist.
const ERROR: &[u8] = b"E\0\0\0gSERROR\0VERROR\0C42P01\0Mrelation \"nope\" does not exist\0P15\0\
    Fparse_relation.c\0L1498\0RparserOpenTable\0\0Z\0\0\0\x05I";

fn messages(bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut scanner = Scanner::backend();
    let mut input = bytes;
    let mut found = Vec::new();
    while let Some(frame) = scanner.next(&mut input, TagSet::ALL).expect("recorded bytes") {
        found.push((frame.tag, frame.body.expect("all are wanted").to_vec()));
    }
    assert!(scanner.at_boundary() && input.is_empty());
    found
}

#[test]
fn a_greeting_reads() {
    let found = messages(GREETING);
    let tags: Vec<u8> = found.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(tags, b"RSSSKZ");
    assert_eq!(Authentication::parse(&found[0].1), Ok(Authentication::Ok));
    let version = ParameterStatus::parse(&found[3].1).unwrap();
    assert_eq!((version.name.as_str(), version.value.as_str()), ("server_version", "18.6"));
    let key = BackendKeyData::parse(&found[4].1).unwrap();
    assert_eq!(key, BackendKeyData { process: 17911, key: vec![b'W', 0xaf, 0xe0, 0x19] });
    assert_eq!(TransactionStatus::parse(&found[5].1), Ok(TransactionStatus::Idle));
}

#[test]
fn a_result_reads() {
    let found = messages(ONE_ROW);
    let tags: Vec<u8> = found.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(tags, [BIND_COMPLETE, ROW_DESCRIPTION, DATA_ROW, COMMAND_COMPLETE, READY_FOR_QUERY]);
    let columns = RowDescription::parse(&found[1].1).unwrap().columns;
    assert_eq!(columns.len(), 1);
    assert_eq!((columns[0].name.as_str(), columns[0].type_oid), ("abalance", 23));
    assert_eq!((columns[0].attribute, columns[0].type_length), (3, 4));
    assert_eq!(DataRow::parse(&found[2].1).unwrap().columns, [Some(&b"4527"[..])]);
    let complete = CommandComplete::parse(&found[3].1).unwrap();
    assert_eq!((complete.tag, complete.rows()), ("SELECT 1", Some(1)));
    assert_eq!(TransactionStatus::parse(&found[4].1), Ok(TransactionStatus::InTransaction));
}

#[test]
fn an_error_reads() {
    let fields = ErrorFields::parse(&messages(ERROR)[0].1).unwrap();
    assert_eq!(fields.code, "42P01");
    assert_eq!(fields.position, Some(15));
    assert!(!fields.is_fatal());
    assert_eq!(fields.to_string(), "ERROR 42P01: relation \"nope\" does not exist");
}

#[test]
fn authentication_requests_read() {
    let parse = |body: &[u8]| Authentication::parse(body).unwrap();
    assert_eq!(parse(b"\0\0\0\x03"), Authentication::CleartextPassword);
    assert_eq!(parse(b"\0\0\0\x05abcd"), Authentication::Md5Password { salt: *b"abcd" });
    assert_eq!(
        parse(b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"),
        Authentication::Sasl(vec!["SCRAM-SHA-256-PLUS".into(), "SCRAM-SHA-256".into()])
    );
    assert_eq!(parse(b"\0\0\0\x0br=x"), Authentication::SaslContinue(b"r=x".to_vec()));
    assert_eq!(parse(b"\0\0\0\x07").name(), "GSSAPI");
}

#[test]
fn a_row_may_hold_nulls_and_nothing() {
    let row = DataRow::parse(b"\0\x02\xff\xff\xff\xff\0\0\0\0").unwrap();
    assert_eq!(row.columns, [None, Some(&b""[..])]);
}

#[test]
fn bodies_that_lie_about_their_inside_are_errors() {
    assert!(DataRow::parse(b"\0\x01\0\0\0\x09abc").is_err());
    assert!(DataRow::parse(b"\0\x01\xff\xff\xff\xfe").is_err());
    assert!(DataRow::parse(b"\0\0left over").is_err());
    assert!(ParameterDescription::parse(b"\xff\xff\0\0\0\x17").is_err());
    assert!(CommandComplete::parse(b"no end").is_err());
    assert!(TransactionStatus::parse(b"X").is_err());
    assert!(BackendKeyData::parse(b"\0\0\0\x01").is_err());
    assert!(ErrorFields::parse(b"Mno code\0\0").is_err());
}

proptest! {
    #[test]
    fn no_body_makes_a_parser_panic(body in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = Authentication::parse(&body);
        let _ = BackendKeyData::parse(&body);
        let _ = CommandComplete::parse(&body);
        let _ = DataRow::parse(&body);
        let _ = ErrorFields::parse(&body);
        let _ = ParameterDescription::parse(&body);
        let _ = ParameterStatus::parse(&body);
        let _ = RowDescription::parse(&body);
        let _ = TransactionStatus::parse(&body);
    }

    #[test]
    fn flipping_a_byte_of_a_real_answer_never_panics(at in 0..ONE_ROW.len(), to in any::<u8>()) {
        let mut bytes = ONE_ROW.to_vec();
        bytes[at] = to;
        let mut scanner = Scanner::backend();
        let mut input = &bytes[..];
        while let Ok(Some(frame)) = scanner.next(&mut input, TagSet::ALL) {
            let body = frame.body.unwrap_or_default();
            let _ = (DataRow::parse(body), RowDescription::parse(body), CommandComplete::parse(body));
        }
    }
}
