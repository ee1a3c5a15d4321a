use super::*;

fn bytes(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// What pgbench 18.6 sends for the second statement of its built-in script,
/// recorded from its socket.
#[test]
fn an_execution_equals_what_libpq_sends() {
    let recorded = b"B\0\0\0#\0P_1\0\0\0\0\x02\0\0\0\x044527\0\0\0\x06469817\0\x01\0\0\
        D\0\0\0\x06P\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
    let sent = bytes(|out| {
        Bind {
            portal: "",
            statement: "P_1",
            formats: &[],
            values: &[Some(b"4527"), Some(b"469817")],
            results: &[FORMAT_TEXT],
        }
        .write(out);
        Describe { object: Object::Portal, name: "" }.write(out);
        Execute { portal: "", row_limit: 0 }.write(out);
        out.extend(SYNC);
    });
    assert_eq!(sent, recorded);
}

#[test]
fn packets_without_a_type_carry_their_codes() {
    assert_eq!(bytes(|out| SslRequest.write(out)), b"\0\0\0\x08\x04\xd2\x16\x2f");
    assert_eq!(
        bytes(|out| CancelRequest { process: 258, key: &[1, 2, 3, 4] }.write(out)),
        b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\x01\x02\x01\x02\x03\x04"
    );
    assert_eq!(
        bytes(|out| Startup { parameters: &[("user", "me")] }.write(out)),
        b"\0\0\0\x11\0\x03\0\0user\0me\0\0"
    );
}

#[test]
fn the_rest_have_the_shape_of_the_documentation() {
    assert_eq!(
        bytes(|out| Parse { statement: "s", sql: "SELECT $1", types: &[23] }.write(out)),
        b"P\0\0\0\x16s\0SELECT $1\0\0\x01\0\0\0\x17"
    );
    assert_eq!(bytes(|out| Query { sql: "BEGIN" }.write(out)), b"Q\0\0\0\x0aBEGIN\0");
    assert_eq!(
        bytes(|out| Close { object: Object::Statement, name: "s" }.write(out)),
        b"C\0\0\0\x07Ss\0"
    );
    assert_eq!(bytes(|out| CopyFail { reason: "no" }.write(out)), b"f\0\0\0\x07no\0");
    assert_eq!(bytes(|out| Password { password: "x" }.write(out)), b"p\0\0\0\x06x\0");
    assert_eq!(
        bytes(|out| SaslInitialResponse { mechanism: "M", data: b"ab" }.write(out)),
        b"p\0\0\0\x0cM\0\0\0\0\x02ab"
    );
    assert_eq!(bytes(|out| SaslResponse { data: b"ab" }.write(out)), b"p\0\0\0\x06ab");
}

#[test]
fn a_null_value_has_length_minus_one() {
    let sent = bytes(|out| {
        Bind {
            portal: "",
            statement: "",
            formats: &[FORMAT_BINARY],
            values: &[None],
            results: &[],
        }
        .write(out);
    });
    assert_eq!(sent, b"B\0\0\0\x12\0\0\0\x01\0\x01\0\x01\xff\xff\xff\xff\0\0");
}

#[test]
fn a_nul_inside_a_parameter_is_found() {
    assert_eq!(Startup { parameters: &[("user", "a"), ("b", "c\0d")] }.check(), Some("b"));
    assert_eq!(Startup { parameters: &[("user", "a")] }.check(), None);
}
