//! Tolerant building blocks for reading engines' JSON: a field of an unexpected type reads as
//! absent instead of failing the whole event. Nothing is copied but strings with escapes.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A value of which only the kind, and scalars, matter.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Loose<'a> {
    /// Absent, null, a boolean, or a number that is no count.
    #[default]
    Nothing,
    Number(u64),
    Text(Cow<'a, str>),
    /// An array or object, with or without elements.
    Container {
        filled: bool,
    },
}

impl<'a> Loose<'a> {
    /// A non-empty string, array or object.
    pub(super) fn filled(&self) -> bool {
        match self {
            Self::Text(text) => !text.is_empty(),
            Self::Container { filled } => *filled,
            Self::Nothing | Self::Number(_) => false,
        }
    }

    pub(super) fn count(&self) -> Option<u64> {
        if let Self::Number(count) = self { Some(*count) } else { None }
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The string, unless it is empty.
    pub(super) fn word(&self) -> Option<&str> {
        self.text().filter(|text| !text.is_empty())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Loose<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor(PhantomData))
    }
}

struct LooseVisitor<'a>(PhantomData<&'a ()>);

impl<'de: 'a, 'a> Visitor<'de> for LooseVisitor<'a> {
    type Value = Loose<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<Loose<'a>, E> {
        Ok(Loose::Nothing)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Loose<'a>, E> {
        Ok(Loose::Nothing)
    }
    fn visit_u64<E>(self, number: u64) -> Result<Loose<'a>, E> {
        Ok(Loose::Number(number))
    }
    fn visit_i64<E>(self, _: i64) -> Result<Loose<'a>, E> {
        Ok(Loose::Nothing)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Loose<'a>, E> {
        Ok(Loose::Nothing)
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Loose<'a>, E> {
        Ok(Loose::Text(Cow::Borrowed(text)))
    }
    fn visit_str<E>(self, text: &str) -> Result<Loose<'a>, E> {
        Ok(Loose::Text(Cow::Owned(text.to_owned())))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Loose<'a>, A::Error> {
        let filled = seq.next_element::<IgnoredAny>()?.is_some();
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Loose::Container { filled })
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Loose<'a>, A::Error> {
        let filled = map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some();
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Loose::Container { filled })
    }
}

/// An object read as `T`; anything else reads as `None`.
#[derive(Clone, Debug)]
pub(super) struct Object<T>(pub(super) Option<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Option<T>, E> {
        Ok(None)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Option<T>, E> {
        Ok(None)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Option<T>, E> {
        Ok(None)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Option<T>, E> {
        Ok(None)
    }
    fn visit_str<E>(self, _: &str) -> Result<Option<T>, E> {
        Ok(None)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<T>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}

/// Keys of a delta that say what it is, not what it adds.
const LABELS: [&str; 3] = ["role", "type", "signature"];

/// Whether a delta object adds something: any non-empty string, array or object except labels.
/// So a new kind of delta (reasoning, refusal, audio, tool calls) needs no new code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Adds(pub(super) bool);

impl<'de> Deserialize<'de> for Adds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Object::<AddsFields>::deserialize(deserializer)
            .map(|object| Self(object.0.is_some_and(|fields| fields.0)))
    }
}

struct AddsFields(bool);

impl<'de> Deserialize<'de> for AddsFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = AddsFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AddsFields, A::Error> {
                let mut adds = false;
                while let Some(key) = map.next_key::<Loose<'de>>()? {
                    if adds || key.text().is_some_and(|key| LABELS.contains(&key)) {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        adds = map.next_value::<Loose<'de>>()?.filled();
                    }
                }
                Ok(AddsFields(adds))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delta_adds_when_anything_but_a_label_is_filled() {
        for (json, adds) in [
            (r#"{"role":"assistant","content":""}"#, false),
            (r#"{"role":"assistant","content":null,"reasoning":null}"#, false),
            (r#"{"content":" w"}"#, true),
            (r#"{"content":"\n"}"#, true),
            (r#"{"reasoning":"hm"}"#, true),
            (r#"{"tool_calls":[{"index":0}],"content":null}"#, true),
            (r#"{"tool_calls":[]}"#, false),
            (r#"{"type":"signature_delta","signature":"abc"}"#, false),
            (r#"{"type":"text_delta","text":"a"}"#, true),
            (r#"{"index":3,"flag":true,"x":-1,"y":1.5}"#, false),
            ("{}", false),
            ("null", false),
            ("[1]", false),
            (r#""text""#, false),
        ] {
            assert_eq!(serde_json::from_str::<Adds>(json).unwrap().0, adds, "{json}");
        }
    }

    #[test]
    fn unexpected_types_read_as_absent() {
        #[derive(serde::Deserialize)]
        struct Inner<'a> {
            #[serde(borrow, default)]
            n: Loose<'a>,
        }
        for json in ["null", "1", "-1", "1.5", "true", r#""x""#, "[{}]", r#"{"n":[1]}"#] {
            let inner = serde_json::from_str::<Object<Inner<'_>>>(json).unwrap();
            assert_eq!(inner.0.and_then(|inner| inner.n.count()), None, "{json}");
        }
        let inner = serde_json::from_str::<Object<Inner<'_>>>(r#"{"n":7,"m":0}"#).unwrap();
        assert_eq!(inner.0.unwrap().n.count(), Some(7));
    }
}
