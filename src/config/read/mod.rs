//! Reading a tree field by field. A [`Section`] gives out typed values and reports whatever does
//! not fit; [`kind`]s say what a value may be.

pub(super) mod kind;
mod section;
mod suggest;

pub(super) use section::{At, Section};
