//! The grammar of expressions.
//!
//! Precedence is that of pgbench's grammar (`exprparse.y`, PostgreSQL 18),
//! lowest first: OR; AND; NOT; IS, ISNULL, NOTNULL; comparisons, which do not
//! chain; `| # & ~ << >>`, all equal; `+ -`; `* / %`; unary `+ -`.

use super::error::{Fault, Located, closest};
use super::eval::binary;
use super::expr::{BinaryOp, CaseNode, Expr, FUNCTIONS, Function, Node};
use super::program::Slot;
use super::token::{Token, TokenKind};
use super::value::Scalar;

/// Deepest nesting and longest chain of operators; bounds the stack that
/// parsing and evaluating need.
const MAX_DEPTH: usize = 250;

type Parsed<T> = Result<T, Located>;

/// Finds the slot of a variable that an expression reads.
pub(crate) trait Resolve {
    /// The slot of `name`, which stands at `offset`.
    fn variable(&mut self, name: &str, offset: usize) -> Slot;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Or,
    And,
    Not,
    Is,
    Comparison,
    Bit,
    Sum,
    Product,
    Unary,
}

impl Level {
    /// The next tighter level: what the right side of a left-associative
    /// operator binds at.
    fn tighter(self) -> Level {
        match self {
            Level::Or => Level::And,
            Level::And => Level::Not,
            Level::Not => Level::Is,
            Level::Is => Level::Comparison,
            Level::Comparison => Level::Bit,
            Level::Bit => Level::Sum,
            Level::Sum => Level::Product,
            Level::Product | Level::Unary => Level::Unary,
        }
    }
}

#[derive(Clone, Copy)]
enum Infix {
    Or,
    And,
    Is,
    IsNull,
    NotNull,
    /// An operator, and whether its sides are swapped (`>` is `<` swapped).
    Binary(BinaryOp, bool),
}

/// Parses the tokens of one expression; nothing may follow it.
pub(crate) fn parse(tokens: &[Token<'_>], resolve: &mut dyn Resolve) -> Parsed<Expr> {
    let mut parser = Parser { tokens, at: 0, depth: 0, resolve };
    let expr = parser.expression(Level::Or)?;
    match parser.kind() {
        TokenKind::End => Ok(Expr(expr)),
        TokenKind::Symbol("-") => Err(parser.fault(Fault::new("unexpected \"-\"").hint(
            "a comment cannot stand on the line of a backslash command; put it on its own line",
        ))),
        TokenKind::Symbol(symbol) if comparison(symbol) => Err(parser.fault(
            Fault::new("comparisons do not chain")
                .hint("join two comparisons with AND, or use parentheses"),
        )),
        _ => Err(parser.unexpected("an operator or the end of the line")),
    }
}

fn comparison(symbol: &str) -> bool {
    matches!(symbol, "<" | "<=" | ">" | ">=" | "=" | "<>" | "!=")
}

struct Parser<'a, 'r> {
    tokens: &'a [Token<'a>],
    at: usize,
    depth: usize,
    resolve: &'r mut dyn Resolve,
}

impl<'a> Parser<'a, '_> {
    fn kind(&self) -> TokenKind<'a> {
        self.tokens.get(self.at).map_or(TokenKind::End, |token| token.kind)
    }

    fn offset(&self) -> usize {
        let last = self.tokens.len().saturating_sub(1);
        self.tokens.get(self.at.min(last)).map_or(0, |token| token.offset)
    }

    fn fault(&self, fault: Fault) -> Located {
        (self.offset(), fault)
    }

    fn unexpected(&self, wanted: &str) -> Located {
        let found = match self.kind() {
            TokenKind::End => "the end of the line".to_owned(),
            TokenKind::Word(word) => format!("\"{word}\""),
            TokenKind::Variable(name) => format!("\":{name}\""),
            TokenKind::Symbol(symbol) => format!("\"{symbol}\""),
            TokenKind::Text(text) => format!("'{text}'"),
            TokenKind::Int(value) => format!("\"{value}\""),
            TokenKind::Double(value) => format!("\"{value}\""),
            TokenKind::MaxIntPlusOne => return self.fault(Fault::new("bigint constant overflow")),
        };
        self.fault(Fault::new(format!("syntax error: {found} where {wanted} is expected")))
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.kind(), TokenKind::Symbol(found) if found == symbol);
        self.at += usize::from(found);
        found
    }

    fn keyword(&mut self, keyword: &str) -> bool {
        let found =
            matches!(self.kind(), TokenKind::Word(word) if word.eq_ignore_ascii_case(keyword));
        self.at += usize::from(found);
        found
    }

    fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.fault(
                Fault::new(format!(
                    "the expression is nested or chained more than {MAX_DEPTH} deep"
                ))
                .hint("split it over several \\set commands"),
            ));
        }
        Ok(())
    }

    fn infix(&self) -> Option<(Level, Infix)> {
        use BinaryOp as Op;
        let binary = |level, op| Some((level, Infix::Binary(op, false)));
        match self.kind() {
            TokenKind::Symbol(symbol) => match symbol {
                "+" => binary(Level::Sum, Op::Add),
                "-" => binary(Level::Sum, Op::Subtract),
                "*" => binary(Level::Product, Op::Multiply),
                "/" => binary(Level::Product, Op::Divide),
                "%" => binary(Level::Product, Op::Modulo),
                "|" => binary(Level::Bit, Op::BitOr),
                "#" => binary(Level::Bit, Op::BitXor),
                "&" => binary(Level::Bit, Op::BitAnd),
                "<<" => binary(Level::Bit, Op::ShiftLeft),
                ">>" => binary(Level::Bit, Op::ShiftRight),
                "=" => binary(Level::Comparison, Op::Equal),
                "<>" | "!=" => binary(Level::Comparison, Op::NotEqual),
                "<" => binary(Level::Comparison, Op::Less),
                "<=" => binary(Level::Comparison, Op::LessOrEqual),
                ">" => Some((Level::Comparison, Infix::Binary(Op::Less, true))),
                ">=" => Some((Level::Comparison, Infix::Binary(Op::LessOrEqual, true))),
                _ => None,
            },
            TokenKind::Word(word) => match word.to_ascii_lowercase().as_str() {
                "or" => Some((Level::Or, Infix::Or)),
                "and" => Some((Level::And, Infix::And)),
                "is" => Some((Level::Is, Infix::Is)),
                "isnull" => Some((Level::Is, Infix::IsNull)),
                "notnull" => Some((Level::Is, Infix::NotNull)),
                _ => None,
            },
            _ => None,
        }
    }

    fn expression(&mut self, lowest: Level) -> Parsed<Node> {
        let depth = self.depth;
        self.deeper()?;
        let mut left = self.prefix()?;
        while let Some((level, infix)) = self.infix().filter(|(level, _)| *level >= lowest) {
            self.deeper()?;
            self.at += 1;
            left = match infix {
                Infix::IsNull => Node::Is(Box::new(left), Scalar::Null),
                Infix::NotNull => not(Node::Is(Box::new(left), Scalar::Null)),
                Infix::Is => self.is(left)?,
                Infix::Or => Node::Or(Box::new([left, self.expression(level.tighter())?])),
                Infix::And => Node::And(Box::new([left, self.expression(level.tighter())?])),
                Infix::Binary(op @ (BinaryOp::Equal | BinaryOp::NotEqual), _)
                    if matches!(self.kind(), TokenKind::Text(_)) =>
                {
                    let is = self.is_text(&left)?;
                    if op == BinaryOp::Equal { is } else { not(is) }
                }
                Infix::Binary(op, swapped) => {
                    let right = self.expression(level.tighter())?;
                    let sides = if swapped { [right, left] } else { [left, right] };
                    fold(op, sides)
                }
            };
            let next = self.infix().map(|(next, _)| next);
            if level == Level::Comparison && next == Some(Level::Comparison) {
                return Err(self.fault(
                    Fault::new("comparisons do not chain")
                        .hint("join two comparisons with AND, or use parentheses"),
                ));
            }
        }
        self.depth = depth;
        Ok(left)
    }

    fn is_text(&mut self, left: &Node) -> Parsed<Node> {
        let (TokenKind::Text(text), Node::Variable(slot)) = (self.kind(), left) else {
            return Err(self.fault(
                Fault::new("only a variable is compared with a text")
                    .hint("write :name = 'text' or :name <> 'text'"),
            ));
        };
        self.at += 1;
        Ok(Node::IsText(*slot, text.into()))
    }

    fn is(&mut self, left: Node) -> Parsed<Node> {
        let negated = self.keyword("not");
        let wanted = if self.keyword("null") {
            Scalar::Null
        } else if self.keyword("true") {
            Scalar::Bool(true)
        } else if self.keyword("false") {
            Scalar::Bool(false)
        } else {
            return Err(self.unexpected("NULL, TRUE or FALSE"));
        };
        let is = Node::Is(Box::new(left), wanted);
        Ok(if negated { not(is) } else { is })
    }

    fn prefix(&mut self) -> Parsed<Node> {
        if self.symbol("-") {
            if self.kind() == TokenKind::MaxIntPlusOne {
                self.at += 1;
                return Ok(Node::Constant(Scalar::Int(i64::MIN)));
            }
            let operand = self.expression(Level::Unary)?;
            return Ok(fold(BinaryOp::Subtract, [Node::Constant(Scalar::Int(0)), operand]));
        }
        if self.symbol("+") {
            return self.expression(Level::Unary);
        }
        if self.symbol("~") {
            let operand = self.expression(Level::Sum)?;
            return Ok(fold(BinaryOp::BitXor, [Node::Constant(Scalar::Int(-1)), operand]));
        }
        if self.keyword("not") {
            return Ok(not(self.expression(Level::Not)?));
        }
        self.primary()
    }

    fn primary(&mut self) -> Parsed<Node> {
        let kind = self.kind();
        let offset = self.offset();
        match kind {
            TokenKind::Int(value) => {
                self.at += 1;
                Ok(Node::Constant(Scalar::Int(value)))
            }
            TokenKind::Double(value) => {
                self.at += 1;
                Ok(Node::Constant(Scalar::Double(value)))
            }
            TokenKind::Variable(name) => {
                self.at += 1;
                Ok(Node::Variable(self.resolve.variable(name, offset)))
            }
            TokenKind::Symbol("(") => {
                self.at += 1;
                let inner = self.expression(Level::Or)?;
                if !self.symbol(")") {
                    return Err(self.unexpected("\")\""));
                }
                Ok(inner)
            }
            TokenKind::Word(word) => {
                self.at += 1;
                match word.to_ascii_lowercase().as_str() {
                    "null" => Ok(Node::Constant(Scalar::Null)),
                    "true" => Ok(Node::Constant(Scalar::Bool(true))),
                    "false" => Ok(Node::Constant(Scalar::Bool(false))),
                    "case" => self.case(),
                    lower => self.call(word, lower, offset),
                }
            }
            _ => Err(self.unexpected("a value")),
        }
    }

    fn case(&mut self) -> Parsed<Node> {
        let mut arms = Vec::new();
        while self.keyword("when") {
            let condition = self.expression(Level::Or)?;
            if !self.keyword("then") {
                return Err(self.unexpected("THEN"));
            }
            arms.push((condition, self.expression(Level::Or)?));
        }
        if arms.is_empty() {
            return Err(self.unexpected("WHEN"));
        }
        let otherwise = if self.keyword("else") {
            self.expression(Level::Or)?
        } else {
            Node::Constant(Scalar::Null)
        };
        if !self.keyword("end") {
            return Err(self.unexpected("WHEN, ELSE or END"));
        }
        Ok(Node::Case(Box::new(CaseNode { arms, otherwise })))
    }

    fn call(&mut self, word: &str, lower: &str, offset: usize) -> Parsed<Node> {
        let names = || FUNCTIONS.iter().map(|signature| signature.name);
        let Some(signature) = FUNCTIONS.iter().find(|signature| signature.name == lower) else {
            let fault = Fault::new(format!("unknown function \"{word}\""));
            return Err((
                offset,
                match closest(word, names()) {
                    Some(name) => fault.hint(format!("did you mean {name}()?")),
                    None if !matches!(self.kind(), TokenKind::Symbol("(")) => {
                        fault.hint(format!("if it is a variable, write :{word}"))
                    }
                    None => fault.hint(format!(
                        "the functions are {}",
                        names().collect::<Vec<_>>().join(", ")
                    )),
                },
            ));
        };
        if !self.symbol("(") {
            return Err(self.unexpected(&format!("\"(\" after {lower}")));
        }
        let mut arguments = Vec::new();
        if !self.symbol(")") {
            loop {
                arguments.push(self.expression(Level::Or)?);
                if self.symbol(")") {
                    break;
                }
                if !self.symbol(",") {
                    return Err(self.unexpected("\",\" or \")\""));
                }
            }
        }
        let count = arguments.len();
        if count < signature.min || count > signature.max {
            return Err((offset, Fault::new(wrong_count(signature, count))));
        }
        if signature.function.takes_default_seed() && count < signature.max {
            arguments.push(Node::Variable(self.resolve.variable("default_seed", offset)));
        }
        Ok(call_node(signature.function, arguments))
    }
}

fn wrong_count(signature: &super::expr::Signature, count: usize) -> String {
    let (min, max) = (signature.min, signature.max);
    let wanted = if min == max { min.to_string() } else { format!("{min} to {max}") };
    let plural = if max == 1 { "" } else { "s" };
    format!("{}() takes {wanted} argument{plural}, not {count}", signature.name)
}

/// An operator, worked out at once where both sides are constants. One that
/// fails stays, to fail when it runs as in pgbench.
fn fold(op: BinaryOp, sides: [Node; 2]) -> Node {
    if let [Node::Constant(left), Node::Constant(right)] = sides
        && let Ok(value) = binary(op, left, right)
    {
        return Node::Constant(value);
    }
    Node::Binary(op, Box::new(sides))
}

fn call_node(function: Function, arguments: Vec<Node>) -> Node {
    Node::Call(function, arguments.into_boxed_slice())
}

fn not(node: Node) -> Node {
    Node::Not(Box::new(node))
}
