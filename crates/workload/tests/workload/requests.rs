//! Files of requests as users write them.

use walwright_workload::script::{
    CaptureFrom, ClientStart, Definition, EvalError, Program, Request, Rng, ScriptSource, Value,
    Variables,
};

fn source(text: &str) -> ScriptSource {
    ScriptSource { name: "a.http".into(), text: text.into(), weight: 1 }
}

fn compile(text: &str) -> Program {
    let defined = Definition { name: "token".into(), value: "s e".into() };
    Program::compile_requests(&[source(text)], &[defined]).unwrap_or_else(|e| panic!("{e}"))
}

fn fault(text: &str) -> String {
    Program::compile_requests(&[source(text)], &[]).expect_err(text).to_string()
}

fn request(program: &Program, number: usize) -> &Request {
    program.scripts[0].statements[number].request.as_ref().expect("a request")
}

const START: ClientStart = ClientStart { client_id: 3, scale: 10, random_seed: 1, default_seed: 2 };

fn set(program: &Program, values: &[(&str, Value)]) -> Variables {
    let mut variables = program.variables(&START);
    for (name, value) in values {
        variables.set(program.slot(name).expect(name), value.clone());
    }
    variables
}

/// Target, header fields and body as they are sent.
fn sent(request: &Request, variables: &Variables) -> Result<[String; 3], EvalError> {
    let mut rng = Rng::from_seed(1);
    let mut write = |text: &walwright_workload::script::RequestText| {
        let mut out = Vec::new();
        text.write(variables, &mut rng, &mut out)?;
        Ok(String::from_utf8(out).expect("UTF-8"))
    };
    let body = request.body.as_ref().map_or(Ok(String::new()), &mut write)?;
    Ok([write(&request.target)?, write(&request.headers)?, body])
}

#[test]
fn requests_end_where_something_else_begins() {
    let program = compile(
        "# first\nPOST /a HTTP/1.1\nX-One: 1\n# between fields\nX-Two: 2\n\n\n{\n  \"b\": 1\n}\n\n\
         ### second\nGET /b\n\\sleep 1 ms\nDELETE /c\r\n\r\nPUT /d\r\nContent-Type: text/plain\r\n\r\n\
         GET out of here\r\nand \\more\r\n",
    );
    let script = &program.scripts[0];
    let labels: Vec<&str> = script.statements.iter().map(|s| s.label.as_str()).collect();
    assert_eq!(labels, ["POST /a", "GET /b", "DELETE /c", "PUT /d"]);
    let lines: Vec<u32> = script.statements.iter().map(|s| s.line).collect();
    assert_eq!(lines, [2, 13, 15, 17]);
    let none = set(&program, &[]);
    let all: Vec<[String; 3]> =
        (0..4).map(|number| sent(request(&program, number), &none).unwrap()).collect();
    let json = "X-One: 1\r\nX-Two: 2\r\nContent-Type: application/json\r\n";
    assert_eq!(all[0], ["/a", json, "{\n  \"b\": 1\n}"]);
    assert_eq!(all[1], ["/b", "", ""]);
    assert_eq!(all[2], ["/c", "", ""]);
    assert_eq!(all[3], ["/d", "Content-Type: text/plain\r\n", "GET out of here\r\nand \\more"]);
}

#[test]
fn values_are_written_as_their_place_wants_them() {
    let program = compile(
        "\\set n 1\n\\text t x\n\
         POST /d/:t/e?q=:t&n=:n&s={{:n + 1}}\nX-A: :token \\:t\n\n\
         {\"n\": :n, \"t\": :t, \"u\": \"a :t :unknown\", \"b\":true, \"c\":null, \"d\": [:n,:t], \"w\": \"{{:n * 2}}\"}\n\
         POST /f\nContent-Type: application/x-www-form-urlencoded\n\na=:t&b=:n\n\
         GET :t\n",
    );
    let variables = set(&program, &[("n", 7.into()), ("t", "/a \"b\"&".into())]);
    let [target, headers, body] = sent(request(&program, 0), &variables).unwrap();
    assert_eq!(target, "/d/%2Fa%20%22b%22%26/e?q=%2Fa%20%22b%22%26&n=7&s=8");
    assert_eq!(headers, "X-A: s e :t\r\nContent-Type: application/json\r\n");
    assert_eq!(
        body,
        r#"{"n": 7, "t": "/a \"b\"&", "u": "a /a \"b\"& :unknown", "b":true, "c":null, "d": [7,"/a \"b\"&"], "w": "14"}"#
    );
    assert_eq!(sent(request(&program, 1), &variables).unwrap()[2], "a=%2Fa%20%22b%22%26&b=7");
    assert_eq!(sent(request(&program, 2), &variables).unwrap()[0], "/a%20%22b%22&");
}

#[test]
fn the_example_is_one() {
    let program = compile(include_str!("../../../../plans/documents.http"));
    let labels: Vec<&str> =
        program.scripts[0].statements.iter().map(|statement| statement.label.as_str()).collect();
    let expected = [
        "POST /data/resource-:resource",
        "GET :place",
        "DELETE /data/resource-:resource/:id",
        "PUT :place",
    ];
    assert_eq!(labels, expected);
}

#[test]
fn a_header_field_holds_no_line_break() {
    let program = compile("\\text t x\nGET /\nX-A: :t\n");
    let variables = set(&program, &[("t", "a\r\nX-B: b".into())]);
    let error = sent(request(&program, 0), &variables).unwrap_err();
    assert!(program.explain(0, 1, error).to_string().contains("\"t\" holds a line break"));
}

#[test]
fn captures_belong_to_the_request_before_them() {
    let program = compile(
        "GET /a\n\\capture place header Location\n\\capture id json /a/0\n\\capture code status\n\
         \\if :code = 200\nGET :place\n\\endif\n",
    );
    let parts: Vec<&CaptureFrom> =
        request(&program, 0).captures.iter().map(|capture| &capture.from).collect();
    assert_eq!(
        parts,
        [
            &CaptureFrom::Header("Location".into()),
            &CaptureFrom::Json("/a/0".into()),
            &CaptureFrom::Status
        ]
    );
    assert_eq!(request(&program, 0).kept_headers, ["Location"]);
    assert!(request(&program, 0).keeps_body() && !request(&program, 1).keeps_body());
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (text, told) in [
        ("SELECT 1;\n", "a.http:1:1: this is neither a request nor a command"),
        ("GTE /a\n", "did you mean GET?"),
        ("GET /a\n\nPOTS /b\n\n{}\n", "a.http:3:1: unknown method POTS"),
        ("GET http://host/a\n", "--http names the server"),
        ("GET /a\nHost: b\n", "the driver writes Host itself"),
        ("POST /a\nContent-Length: 3\n\nabc\n", "it follows from the body"),
        ("GET /a\nno field\n", "a.http:2:1: this is no header field"),
        ("GET /:id\n", "a.http:1:6: undefined variable \"id\""),
        ("\\set id 1\nPOST /a\n\n{\"a\": :idd}\n", "did you mean :id?"),
        ("GET /{{randm(1, 2)}}\n", "a.http:1:8: unknown function"),
        ("GET /{{:n}}\n", "a.http:1:8: undefined variable \"n\""),
        ("\\capture a status\nGET /a\n", "\\capture must follow a request"),
        ("GET /a\n\\set n 1\n\\capture a status\n", "\\capture must follow a request"),
        ("GET /a\n\\capture a json id\n", "is no JSON pointer"),
        ("GET /a\n\\capture a cookie\n", "the parts are header, json and status"),
        ("GET /a\n\\gset\n", "\\gset is a command of SQL scripts"),
        ("# nothing\n", "the script has no commands"),
        ("\\if true\nGET /a\n", "\\if"),
    ] {
        let error = fault(text);
        assert!(error.contains(told), "{text:?}: {error}");
    }
    let sql = Program::compile(&[source("SELECT 1;\n\\capture a status\n")], &[]).unwrap_err();
    assert!(sql.to_string().contains("a command of files of requests"), "{sql}");
}
