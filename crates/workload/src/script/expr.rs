//! Compiled expressions: the tree that `\set`, `\if` and `\elif` evaluate.

use super::program::Slot;
use super::value::Scalar;

/// An expression whose variables are slots.
///
/// Evaluate it with [`Expr::eval`] or [`Expr::eval_condition`].
#[derive(Debug, Clone, PartialEq)]
pub struct Expr(pub(crate) Node);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Constant(Scalar),
    Variable(Slot),
    Not(Box<Node>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    /// `a IS NULL`, `a IS TRUE`, `a IS FALSE`: same type and same value.
    Is(Box<Node>, Scalar),
    Binary(BinaryOp, Box<[Node; 2]>),
    /// Whether a variable, written out, is this text.
    IsText(Slot, Box<str>),
    Case(Box<CaseNode>),
    Call(Function, Box<[Node]>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CaseNode {
    pub arms: Vec<(Node, Node)>,
    pub otherwise: Node,
}

/// Operators on two values. `>` and `>=` are `<` and `<=` with swapped sides;
/// `-x` is `0 - x` and `~x` is `-1 # x`, as in pgbench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Abs,
    Debug,
    Double,
    Exp,
    Greatest,
    HashFnv1a,
    HashMurmur2,
    Int,
    Least,
    Ln,
    Mod,
    Permute,
    Pi,
    Power,
    Random,
    RandomExponential,
    RandomGaussian,
    RandomZipfian,
    Sqrt,
}

/// The most arguments pgbench passes to `least` and `greatest`.
pub(crate) const MAX_ARGUMENTS: usize = 16;

/// How a function is called: its name, and the fewest and most arguments.
pub(crate) struct Signature {
    pub name: &'static str,
    pub function: Function,
    pub min: usize,
    pub max: usize,
}

const fn signature(name: &'static str, function: Function, min: usize, max: usize) -> Signature {
    Signature { name, function, min, max }
}

/// Every function of the language (PostgreSQL 18, "pgbench Functions").
pub(crate) const FUNCTIONS: &[Signature] = &[
    signature("abs", Function::Abs, 1, 1),
    signature("debug", Function::Debug, 1, 1),
    signature("double", Function::Double, 1, 1),
    signature("exp", Function::Exp, 1, 1),
    signature("greatest", Function::Greatest, 1, MAX_ARGUMENTS),
    signature("hash", Function::HashMurmur2, 1, 2),
    signature("hash_fnv1a", Function::HashFnv1a, 1, 2),
    signature("hash_murmur2", Function::HashMurmur2, 1, 2),
    signature("int", Function::Int, 1, 1),
    signature("least", Function::Least, 1, MAX_ARGUMENTS),
    signature("ln", Function::Ln, 1, 1),
    signature("mod", Function::Mod, 2, 2),
    signature("permute", Function::Permute, 2, 3),
    signature("pi", Function::Pi, 0, 0),
    signature("pow", Function::Power, 2, 2),
    signature("power", Function::Power, 2, 2),
    signature("random", Function::Random, 2, 2),
    signature("random_exponential", Function::RandomExponential, 3, 3),
    signature("random_gaussian", Function::RandomGaussian, 3, 3),
    signature("random_zipfian", Function::RandomZipfian, 3, 3),
    signature("sqrt", Function::Sqrt, 1, 1),
];

impl Function {
    /// Whether a call without its last argument means "with `:default_seed`".
    pub(crate) fn takes_default_seed(self) -> bool {
        matches!(self, Function::HashFnv1a | Function::HashMurmur2 | Function::Permute)
    }
}
