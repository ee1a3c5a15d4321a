//! Every target with mutated samples: nothing panics, and nothing takes long or much memory.
//!
//! `PROPTEST_CASES=1000000 cargo test -p walwright-fuzz script` goes on for longer, with one
//! target or all of them.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use walwright_testing::memory::{self, Counting};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most memory that an input of some kilobytes may take.
const MEMORY: usize = 128 << 20;
/// Most time, on a machine that is busy with other things.
const TIME: Duration = Duration::from_secs(20);

/// One change to an input.
#[derive(Debug, Clone)]
enum Mutation {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    /// Once more, so many times.
    Repeat(Index, usize, usize),
    Truncate(Index),
    /// A piece of any sample.
    Splice(Index, Index, Index, usize),
    /// In place of the number there, or of the next one.
    Number(Index, &'static str),
    /// So deep in brackets, or the like.
    Nest(Index, (&'static str, &'static str), usize),
}

/// What inputs are made of, and what breaks readers.
const WORDS: [&[u8]; 34] = [
    b"\0",
    b"\xff",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\n",
    b"\t",
    b"\"",
    b"'",
    b"\\",
    b"$$",
    b"/*",
    b"*/",
    b"--",
    b"(",
    b")",
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b";",
    b"=",
    b"#",
    b"%",
    b":",
    b"@",
    b"..",
    b"NaN",
    b"null",
    b"\xf4\x8f\xbf\xbf",
    b"\xe2\x80\xae",
    b"\x1b[31m",
];

const NUMBERS: [&str; 16] = [
    "0",
    "-1",
    "255",
    "65536",
    "2147483647",
    "2147483648",
    "4294967296",
    "-2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "-1e400",
    "0.00000000000000000001",
    "99999999999999999999999999999999999999999999",
];

const NESTS: [(&str, &str); 15] = [
    ("(", ")"),
    ("[", "]"),
    ("{", "}"),
    ("{\"a\":", "}"),
    ("/*", "*/"),
    ("- ", ""),
    ("not ", ""),
    ("~", ""),
    ("case when 1 then ", " end"),
    ("abs(", ")"),
    ("\\if true\n", "\n\\endif\n"),
    ("[a.", "]"),
    ("a.", ""),
    ("\n[[arm]]\n", ""),
    ("a://b:c@", ""),
];

fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let index = any::<Index>;
    let one = prop_oneof![
        3 => (index(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        3 => (index(), prop::sample::select(&WORDS[..]))
            .prop_map(|(at, word)| Mutation::Insert(at, word.to_vec())),
        1 => (index(), prop::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        2 => (index(), 1_usize..80).prop_map(|(at, length)| Mutation::Remove(at, length)),
        1 => (index(), 1_usize..200, 1_usize..20)
            .prop_map(|(at, length, times)| Mutation::Repeat(at, length, times)),
        1 => index().prop_map(Mutation::Truncate),
        2 => (index(), index(), index(), 1_usize..300)
            .prop_map(|(at, of, from, length)| Mutation::Splice(at, of, from, length)),
        4 => (index(), prop::sample::select(&NUMBERS[..]))
            .prop_map(|(at, number)| Mutation::Number(at, number)),
        1 => (index(), prop::sample::select(&NESTS[..]), prop_oneof![2_usize..300, Just(30_000)])
            .prop_map(|(at, nest, depth)| Mutation::Nest(at, nest, depth)),
    ];
    prop::collection::vec(one, 0..6)
}

fn mutated(samples: &[Vec<u8>], sample: &Index, mutations: &[Mutation]) -> Vec<u8> {
    let mut bytes = sample.get(samples).clone();
    for mutation in mutations {
        let place = |at: &Index| at.index(bytes.len() + 1);
        match mutation {
            Mutation::Set(at, byte) => {
                let at = place(at);
                if let Some(there) = bytes.get_mut(at) {
                    *there = *byte;
                }
            }
            Mutation::Insert(at, word) => {
                let at = place(at);
                bytes.splice(at..at, word.iter().copied());
            }
            Mutation::Remove(at, length) => {
                let at = place(at);
                bytes.drain(at..(at + length).min(bytes.len()));
            }
            Mutation::Repeat(at, length, times) => {
                let at = place(at);
                let piece = bytes[at..(at + length).min(bytes.len())].repeat(*times);
                bytes.splice(at..at, piece);
            }
            Mutation::Truncate(at) => bytes.truncate(place(at)),
            Mutation::Splice(at, of, from, length) => {
                let (at, other) = (place(at), of.get(samples));
                let from = from.index(other.len() + 1);
                let piece = other[from..(from + length).min(other.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            Mutation::Number(at, number) => {
                let at = place(at);
                let digit = |byte: &u8| byte.is_ascii_digit();
                let from = bytes[at..].iter().position(digit).map_or(at, |found| at + found);
                let to = bytes[from..].iter().position(|byte| !digit(byte));
                let to = to.map_or(bytes.len(), |found| from + found);
                bytes.splice(from..to, number.bytes());
            }
            Mutation::Nest(at, (open, close), depth) => {
                let at = place(at);
                let nested = [open.repeat(*depth), "1".to_owned(), close.repeat(*depth)].concat();
                bytes.splice(at..at, nested.bytes());
            }
        }
    }
    bytes
}

fn bounded(name: &str) {
    let target = walwright_fuzz::target(name).expect("a target of this name");
    let samples = (target.samples)();
    let alone = memory::alone();
    let feed = |bytes: &[u8]| {
        let since = Instant::now();
        let ((), most) = alone.measured(|| (target.feed)(bytes));
        (most, since.elapsed())
    };
    for sample in &samples {
        feed(sample);
    }
    // A stack or an allocation that is too large ends the process: this is what it read last.
    let last = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.last"));
    // `PROPTEST_CASES` counts.
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if name == "driver" {
        // Each is a load of its own.
        config.cases = config.cases.div_ceil(8);
    }
    let ran = TestRunner::new(config).run(&(any::<Index>(), mutations()), |(sample, mutations)| {
        let bytes = mutated(&samples, &sample, &mutations);
        std::fs::write(&last, &bytes).expect("a file");
        let (memory, time) = feed(&bytes);
        prop_assert!(memory < MEMORY, "{} bytes took {} MB", bytes.len(), memory >> 20);
        prop_assert!(time < TIME, "{} bytes took {time:?}", bytes.len());
        Ok(())
    });
    if let Err(error) = ran {
        panic!("{name}: {error}");
    }
}

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { bounded(stringify!($name)); })*

        #[test]
        fn every_target_is_tested() {
            let all: Vec<&str> = walwright_fuzz::TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(all, [$(stringify!($name)),*]);
        }
    };
}

targets!(
    script,
    arguments,
    config_env,
    values,
    experiment_plan,
    client_log,
    workload,
    postgresql_conf,
    lab,
    store,
    columns,
    backend,
    driver,
);
