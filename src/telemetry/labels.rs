//! Which tenants and models may be label values. What is not configured is `unknown` or
//! `other`, so the number of series is bounded by the configurations this process has seen.

use super::counts::{Book, ModelIndex};
use crate::core::ids::{ModelName, TenantId};
use crate::core::policy::ModelSet;
use std::collections::HashMap;
use std::sync::Arc;

/// The label of a model the configuration does not name, and of requests without a model.
pub const OTHER_MODEL: &str = "other";
const OTHER: ModelIndex = 0;

/// The names a configuration gives.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// Each tenant, with the models it may use.
    pub tenants: Vec<(TenantId, ModelSet)>,
    /// Models that pools or tenants name, without `"*"`.
    pub models: Vec<ModelName>,
}

/// Books and model labels; immutable, replaced as a whole by a reload. Names are only ever
/// added: a counter that vanished and came back would look like a restart.
#[derive(Debug)]
pub struct Table {
    books: HashMap<TenantId, Arc<Book>>,
    unknown: Arc<Book>,
    indexes: HashMap<ModelName, ModelIndex>,
    models: Vec<ModelName>,
}

impl Table {
    pub fn new(labels: &Labels) -> Self {
        let other = ModelName::from(OTHER_MODEL);
        let unknown = Arc::new(Book::new(TenantId::unknown()));
        unknown.register([OTHER]);
        let empty = Self {
            books: HashMap::from([(TenantId::unknown(), Arc::clone(&unknown))]),
            unknown,
            indexes: HashMap::from([(other.clone(), OTHER)]),
            models: vec![other],
        };
        empty.extended(labels)
    }

    /// This table and the names of `labels`; books are shared, so no count is lost.
    pub fn extended(&self, labels: &Labels) -> Self {
        let mut table = Self {
            books: self.books.clone(),
            unknown: Arc::clone(&self.unknown),
            indexes: self.indexes.clone(),
            models: self.models.clone(),
        };
        for model in &labels.models {
            table.indexes.entry(model.clone()).or_insert_with(|| {
                table.models.push(model.clone());
                table.models.len() - 1
            });
        }
        for (tenant, allowed) in &labels.tenants {
            let book = table.books.entry(tenant.clone());
            let book = book.or_insert_with(|| Arc::new(Book::new(tenant.clone())));
            let usable = labels.models.iter().filter(|model| allowed.contains(model.as_str()));
            book.register([OTHER].into_iter().chain(usable.map(|model| table.indexes[model])));
        }
        table
    }

    /// The book of `tenant`, or of `unknown`.
    pub fn book(&self, tenant: &TenantId) -> &Arc<Book> {
        self.books.get(tenant).unwrap_or(&self.unknown)
    }

    /// Every book, in the order of the tenants' names.
    pub fn books(&self) -> Vec<&Arc<Book>> {
        let mut books: Vec<_> = self.books.values().collect();
        books.sort_by(|a, b| a.tenant().cmp(b.tenant()));
        books
    }

    /// The label of `model`.
    pub fn model(&self, model: Option<&ModelName>) -> ModelIndex {
        model.and_then(|model| self.indexes.get(model)).copied().unwrap_or(OTHER)
    }

    /// The name behind a label's position.
    pub fn model_name(&self, index: ModelIndex) -> &ModelName {
        &self.models[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(tenants: &[(&str, ModelSet)], models: &[&str]) -> Labels {
        Labels {
            tenants: tenants.iter().map(|(id, set)| (TenantId::from(id), set.clone())).collect(),
            models: models.iter().map(ModelName::from).collect(),
        }
    }

    fn seen(table: &Table, tenant: &str) -> Vec<String> {
        let counts = table.book(&TenantId::from(tenant)).snapshot();
        counts.models.keys().map(|index| table.model_name(*index).to_string()).collect()
    }

    #[test]
    fn a_tenant_shows_the_models_it_may_use() {
        let only = ModelSet::Only(vec![ModelName::from("big")]);
        let table = Table::new(&labels(&[("a", ModelSet::Any), ("b", only)], &["big", "small"]));
        assert_eq!(seen(&table, "a"), ["other", "big", "small"]);
        assert_eq!(seen(&table, "b"), ["other", "big"]);
        assert_eq!(seen(&table, "nobody"), ["other"]);
    }

    #[test]
    fn names_that_are_not_configured_are_folded() {
        let table = Table::new(&labels(&[("a", ModelSet::Any)], &["big"]));
        assert_eq!(table.book(&TenantId::from("eve")).tenant().as_str(), "unknown");
        assert_eq!(table.model_name(table.model(None)).as_str(), "other");
        let invented = ModelName::from("invented-4711");
        assert_eq!(table.model_name(table.model(Some(&invented))).as_str(), "other");
    }

    #[test]
    fn a_reload_adds_and_never_forgets() {
        let first = Table::new(&labels(&[("a", ModelSet::Any)], &["big"]));
        first.book(&TenantId::from("a")).arrive();
        let second = first.extended(&labels(&[("b", ModelSet::Any)], &["small"]));
        assert_eq!(second.book(&TenantId::from("a")).ledger().arrivals(), 1);
        assert_eq!(second.book(&TenantId::from("b")).tenant().as_str(), "b");
        let (big, small) = (ModelName::from("big"), ModelName::from("small"));
        assert_eq!(first.model(Some(&big)), second.model(Some(&big)), "positions are stable");
        assert_eq!(second.model_name(second.model(Some(&small))), &small);
    }
}
