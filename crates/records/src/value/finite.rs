//! Finds numbers that JSON does not have: infinities and NaN. `serde_json` writes them as `null`,
//! which would be read back as something else.

use std::fmt::{self, Display};

use serde::Serialize;
use serde::ser::{
    self, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant,
};

/// A serializer that writes nothing, and fails if a number is not finite.
pub(super) struct Finite;

#[derive(Debug)]
pub(super) struct NotFinite(String);

impl Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotFinite {}

impl ser::Error for NotFinite {
    fn custom<T: Display>(message: T) -> NotFinite {
        NotFinite(message.to_string())
    }
}

type Done = Result<(), NotFinite>;

fn check(number: f64) -> Done {
    match number.is_finite() {
        true => Ok(()),
        false => Err(NotFinite(format!("JSON has no number {number}"))),
    }
}

macro_rules! nothing_to_see {
    ($($name:ident($($type:ty),*);)+) => { $(fn $name(self, $(_: $type),*) -> Done { Ok(()) })+ };
}

impl ser::Serializer for Finite {
    type Ok = ();
    type Error = NotFinite;
    type SerializeSeq = Finite;
    type SerializeTuple = Finite;
    type SerializeTupleStruct = Finite;
    type SerializeTupleVariant = Finite;
    type SerializeMap = Finite;
    type SerializeStruct = Finite;
    type SerializeStructVariant = Finite;

    nothing_to_see! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_i128(i128);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_u128(u128);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }

    fn serialize_f32(self, number: f32) -> Done {
        check(f64::from(number))
    }

    fn serialize_f64(self, number: f64) -> Done {
        check(number)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Done {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Done {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Done {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Finite, NotFinite> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Finite, NotFinite> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Finite, NotFinite> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Finite, NotFinite> {
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Finite, NotFinite> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Finite, NotFinite> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Finite, NotFinite> {
        Ok(self)
    }
}

macro_rules! parts {
    ($($trait:ident::$method:ident;)+) => { $(impl $trait for Finite {
        type Ok = ();
        type Error = NotFinite;

        fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
            value.serialize(Finite)
        }

        fn end(self) -> Done {
            Ok(())
        }
    })+ };
}

parts! {
    SerializeSeq::serialize_element;
    SerializeTuple::serialize_element;
    SerializeTupleStruct::serialize_field;
    SerializeTupleVariant::serialize_field;
}

macro_rules! fields {
    ($($trait:ident),+) => { $(impl $trait for Finite {
        type Ok = ();
        type Error = NotFinite;

        fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Done {
            value.serialize(Finite)
        }

        fn end(self) -> Done {
            Ok(())
        }
    })+ };
}

fields!(SerializeStruct, SerializeStructVariant);

impl SerializeMap for Finite {
    type Ok = ();
    type Error = NotFinite;

    // A key becomes a text, which shows such a number.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Done {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        value.serialize(Finite)
    }

    fn end(self) -> Done {
        Ok(())
    }
}
