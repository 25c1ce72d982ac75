//! As much of kustomize as `k8s/` uses: `resources`, `components`, `namespace`, and strategic
//! merge patches of sections. It refuses everything else, so that it cannot be wrong in silence;
//! where a real kustomize is installed, `shipped` compares the two.

use serde_json::Value;
use std::path::Path;

/// Kinds that belong to no namespace.
const CLUSTER: [&str; 1] = ["Namespace"];

/// The objects that `kustomize build` of a folder gives.
pub fn render(folder: &Path) -> Vec<Value> {
    let file = one(&folder.join("kustomization.yaml"));
    let known = ["apiVersion", "kind", "namespace", "resources", "components", "patches"];
    for key in file.as_object().unwrap().keys() {
        assert!(
            known.contains(&key.as_str()),
            "{}: `{key}` is not understood here",
            folder.display()
        );
    }
    let mut objects = Vec::new();
    for key in ["resources", "components"] {
        for name in texts(&file[key]) {
            let path = folder.join(name);
            objects.extend(if path.is_dir() { render(&path) } else { documents(&path) });
        }
    }
    for patch in file["patches"].as_array().into_iter().flatten() {
        assert_eq!(patch.as_object().unwrap().len(), 1, "only `path` is understood");
        let patch = one(&folder.join(patch["path"].as_str().unwrap()));
        let matching = objects.iter_mut().filter(|object| id(object) == id(&patch));
        let [object] = &mut matching.collect::<Vec<_>>()[..] else {
            panic!("a patch of {:?} meets none or several", id(&patch))
        };
        merge(object, &patch);
    }
    if let Some(namespace) = file["namespace"].as_str() {
        objects.iter_mut().for_each(|object| put(object, namespace));
    }
    objects
}

/// Kind and name.
pub fn id(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// The documents of a file.
pub fn documents(path: &Path) -> Vec<Value> {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names in a list.
pub fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|item| item.as_str().unwrap()).collect()
}

fn one(path: &Path) -> Value {
    let [document] = documents(path).try_into().unwrap();
    document
}

/// Sections are merged, values replaced, null removes. How a list is merged depends on its field,
/// so patches with lists are refused.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        assert!(!patch.is_array(), "lists in patches are not understood here");
        *into = patch.clone();
        return;
    };
    let map = into.as_object_mut().unwrap();
    for (key, value) in patch {
        assert!(!key.starts_with('$'), "`{key}` is not understood here");
        match value {
            Value::Null => {
                map.remove(key);
            }
            value => {
                merge(map.entry(key).or_insert_with(|| Value::Object(Default::default())), value);
            }
        }
    }
}

fn put(object: &mut Value, namespace: &str) {
    let (kind, name) = id(object);
    if CLUSTER.contains(&kind.as_str()) {
        assert_eq!(name, namespace, "the namespace that is used is the one that is made");
        return;
    }
    object["metadata"]["namespace"] = namespace.into();
    for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
        if subject["kind"] == "ServiceAccount" {
            subject["namespace"] = namespace.into();
        }
    }
}
