//! What must hold for every script and expression.

use proptest::prelude::*;
use walwright_workload::script::{
    ClientStart, Command, Piece, Program, Rng, ScriptSource, Value, parse_definition,
    parse_script_argument,
};

fn compile(text: &str) -> Result<Program, String> {
    let source = ScriptSource { name: "p.sql".into(), text: text.into(), weight: 1 };
    Program::compile(&[source], &[]).map_err(|error| error.to_string())
}

fn value(expression: &str) -> Result<Value, String> {
    let program = compile(&format!("\\set x {expression}"))?;
    let variables =
        program.variables(&ClientStart { client_id: 0, scale: 3, random_seed: 1, default_seed: 2 });
    match &program.scripts[0].commands[0] {
        Command::Set { expr, .. } => {
            expr.eval(&variables, &mut Rng::from_seed(9)).map_err(|error| error.to_string())
        }
        other => panic!("\\set compiles to Set, not {other:?}"),
    }
}

/// An expression that knows the level its operator binds at, written once with
/// the fewest parentheses and once with all of them.
#[derive(Debug, Clone)]
enum Tree {
    Leaf(&'static str),
    Prefix(&'static str, u8, Box<Tree>),
    Postfix(Box<Tree>, &'static str),
    Binary(Box<Tree>, &'static str, u8, Box<Tree>),
}

/// Levels from the manual's table, higher binds tighter.
const NOT: u8 = 2;
const IS: u8 = 3;
const COMPARISON: u8 = 4;
const BIT: u8 = 5;
const UNARY: u8 = 8;
const LEAF: u8 = 9;

impl Tree {
    fn level(&self) -> u8 {
        match self {
            Tree::Leaf(_) => LEAF,
            Tree::Prefix(_, level, _) | Tree::Binary(_, _, level, _) => *level,
            Tree::Postfix(..) => IS,
        }
    }

    fn wrapped(&self, needs: bool) -> String {
        if needs { format!("({})", self.sparse()) } else { self.sparse() }
    }

    /// With parentheses only where the levels ask for them.
    fn sparse(&self) -> String {
        match self {
            Tree::Leaf(text) => (*text).to_owned(),
            Tree::Prefix(op, level, operand) => {
                // `~` shares its level with left-associative operators.
                let tight =
                    operand.level() > *level || (*level != BIT && operand.level() == *level);
                format!("{op} {}", operand.wrapped(!tight))
            }
            Tree::Postfix(operand, op) => {
                format!("{} {op}", operand.wrapped(operand.level() <= IS))
            }
            Tree::Binary(left, op, level, right) => {
                let chains = *level != COMPARISON && left.level() == *level;
                let prefix_left = left.ends_in_prefix();
                format!(
                    "{} {op} {}",
                    left.wrapped(!(left.level() > *level || chains) || prefix_left),
                    right.wrapped(right.level() <= *level)
                )
            }
        }
    }

    /// A prefix operator at the end of the left side would swallow the rest.
    fn ends_in_prefix(&self) -> bool {
        match self {
            Tree::Leaf(_) | Tree::Postfix(..) => false,
            Tree::Prefix(..) => true,
            Tree::Binary(_, _, _, right) => right.ends_in_prefix(),
        }
    }

    fn full(&self) -> String {
        match self {
            Tree::Leaf(text) => format!("({text})"),
            Tree::Prefix(op, _, operand) => format!("({op} {})", operand.full()),
            Tree::Postfix(operand, op) => format!("({} {op})", operand.full()),
            Tree::Binary(left, op, _, right) => format!("({} {op} {})", left.full(), right.full()),
        }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop::sample::select(vec![
        "1", "2", "7", "0", "2.5", "null", "true", "false", ":scale", "abs(-3)",
    ]);
    leaf.prop_map(Tree::Leaf).prop_recursive(5, 40, 2, |inner| {
        let prefix = prop::sample::select(vec![("-", UNARY), ("+", UNARY), ("~", BIT), ("not", NOT)]);
        let postfix = prop::sample::select(vec!["is null", "is not true", "isnull", "notnull", "is false"]);
        let binary = prop::sample::select(vec![
            ("or", 0), ("and", 1), ("<", 4), ("<=", 4), (">", 4), (">=", 4), ("=", 4), ("<>", 4),
            ("!=", 4), ("|", 5), ("#", 5), ("&", 5), ("<<", 5), (">>", 5), ("+", 6), ("-", 6),
            ("*", 7), ("/", 7), ("%", 7),
        ]);
        prop_oneof![
            1 => (prefix, inner.clone()).prop_map(|((op, level), tree)| Tree::Prefix(op, level, Box::new(tree))),
            1 => (inner.clone(), postfix).prop_map(|(tree, op)| Tree::Postfix(Box::new(tree), op)),
            6 => (inner.clone(), binary, inner).prop_map(|(left, (op, level), right)| {
                Tree::Binary(Box::new(left), op, level, Box::new(right))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn precedence_is_that_of_the_manual(tree in trees()) {
        let (sparse, full) = (value(&tree.sparse()), value(&tree.full()));
        // NaN is not equal to itself.
        prop_assert_eq!(format!("{sparse:?}"), format!("{full:?}"), "{} / {}", tree.sparse(), tree.full());
        prop_assert!(!matches!(sparse, Err(error) if error.starts_with("p.sql")));
    }

    #[test]
    fn no_text_makes_the_compiler_panic(text in ".*") {
        let _ = compile(&text);
        let _ = parse_script_argument(&text);
        let _ = parse_definition(&text);
    }

    #[test]
    fn no_mixture_of_the_languages_own_words_does(
        words in prop::collection::vec(prop::sample::select(vec![
            "\\set ", "\\if ", "\\elif ", "\\else", "\\endif", "\\sleep ", "\\gset ", "\\aset ", "\\;", "\\:",
            "\\startpipeline", "\\endpipeline", "\\", "\n", "\\\n", "\r\n", " ", "x", ":x", ":scale", "::",
            "'", "\"", "$$", "$a$", "e'", "u&'", "--", "/*", "*/", "(", ")", ",", ";", "1", "1.5e3", "+", "-",
            "case when ", " then ", " end", " is ", " not ", "null", "random(1,", "SELECT ", "BEGIN ", "ä", "\u{0}",
        ]), 0..30),
    ) {
        let _ = compile(&words.concat());
    }

    #[test]
    fn without_variables_the_text_is_sent_as_it_stands(body in "[a-zA-Z0-9 ,.+*=<>|\n]{0,60}") {
        let text = format!("SELECT{body};");
        let program = compile(&text).map_err(TestCaseError::fail)?;
        let statement = &program.scripts[0].statements[0];
        prop_assert_eq!(&statement.text_simple, &vec![Piece::Text(text.clone())]);
        prop_assert_eq!(&statement.text_extended, &text);
    }

    #[test]
    fn random_numbers_stay_in_their_range(
        seed: u64, min in -1000i64..1000, width in 0i64..100_000, parameter in 2.0f64..20.0,
    ) {
        let max = min + width;
        for call in [
            format!("random({min}, {max})"),
            format!("random_gaussian({min}, {max}, {parameter})"),
            format!("random_exponential({min}, {max}, {parameter})"),
            format!("random_zipfian({min}, {max}, {parameter})"),
        ] {
            let program = compile(&format!("\\set x {call}")).map_err(TestCaseError::fail)?;
            let Command::Set { expr, .. } = &program.scripts[0].commands[0] else {
                return Err(TestCaseError::fail("\\set compiles to Set"));
            };
            let variables = walwright_workload::script::Variables::new(program.slot_count());
            let mut rng = Rng::from_seed(seed);
            for _ in 0..20 {
                match expr.eval(&variables, &mut rng) {
                    Ok(Value::Int(value)) => prop_assert!((min..=max).contains(&value), "{call}: {value}"),
                    other => return Err(TestCaseError::fail(format!("{call}: {other:?}"))),
                }
            }
        }
    }

    #[test]
    fn permute_is_a_permutation(size in 1i64..500, seed: i64) {
        let mut seen = vec![false; size as usize];
        for place in 0..size {
            match value(&format!("permute({place}, {size}, {})", seed / 2)) {
                Ok(Value::Int(to)) => seen[to as usize] = true,
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            }
        }
        prop_assert!(seen.iter().all(|place| *place));
    }
}
