//! Requests that are passed on without being understood: only the model is looked for, and
//! nothing is an error.

use super::RequestFacts;
use super::fields::{Field, Seen, model};
use super::scan::{Kind, Scanner, Why};
use super::walk::{Ignore, Walker};
use super::{BadRequest, Limits};
use crate::core::api::Api;
use crate::core::ids::ModelName;

/// The facts of a plain request. `opaque` if there is a body whose model cannot be told.
pub(super) fn read(body: &[u8], limits: &Limits) -> RequestFacts {
    let found = match std::str::from_utf8(body) {
        Ok(text) if text.trim_ascii().is_empty() => Ok(None),
        Ok(text) => find_model(text, limits).map_err(drop),
        Err(_) => Err(()),
    };
    RequestFacts {
        opaque: found.is_err(),
        model: found.unwrap_or(None),
        ..RequestFacts::empty(Api::Plain, body.len())
    }
}

fn find_model(text: &str, limits: &Limits) -> Result<Option<ModelName>, BadRequest> {
    let mut scan = Scanner::new(text);
    let mut walker = Walker::new(limits.depth);
    let mut seen = Seen::default();
    let mut found = None;
    if scan.kind()? != Kind::Object {
        walker.walk(&mut scan, 0, &mut Ignore)?;
        scan.end()?;
        return Ok(None);
    }
    scan.eat(b'{');
    let mut more = !scan.eat(b'}');
    while more {
        let key = scan.key()?;
        let is_model = Field::find(Api::Plain, key).is_some();
        if is_model && !seen.first(Field::Model) {
            return Err(super::fields::duplicate(Field::Model.name()));
        }
        if is_model && matches!(scan.kind()?, Kind::String | Kind::Null) {
            found = model(&mut scan, limits.model)?;
        } else {
            walker.walk(&mut scan, 1, &mut Ignore)?;
        }
        more = scan.eat(b',');
        if !more && !scan.eat(b'}') {
            scan.fail(Why::Expected("',' or '}'"))?;
        }
    }
    scan.end()?;
    Ok(found)
}
