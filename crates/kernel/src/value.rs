//! The values that tasks exchange. A value is opaque to the kernel and cheap to share; its producer
//! and consumer know the type. Numbers and other small values are stored inline, so that most
//! results need no allocation.

use std::any::{Any, TypeId};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// A value that a task can return, send, store or receive as an answer.
///
/// ```
/// # use tiffany_kernel::Value;
/// let shared = Value::new(vec![1, 2]);
/// assert_eq!(shared.clone().get::<Vec<i32>>(), Ok(vec![1, 2]));
/// assert_eq!(Value::new(5u8).get::<u8>(), Ok(5));
/// assert!(Value::new(5u8).get::<String>().is_err());
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Value {
    /// Nothing: `()`.
    #[default]
    Unit,
    /// A boolean.
    Bool(bool),
    /// A signed integer of up to 64 bits.
    Int(i64),
    /// An unsigned integer of up to 64 bits.
    Uint(u64),
    /// A floating-point number.
    Float(f64),
    /// Text.
    Str(Rc<str>),
    /// A string that is part of the program.
    Static(&'static str),
    /// Any other type, shared.
    Object(Rc<dyn Object>),
}

/// The content of a [`Value::Object`]: any type, with its name for error messages.
pub trait Object: Any {
    /// The Rust name of the type.
    fn type_name(&self) -> &'static str;
}

/// A user's value whose `Drop` cannot unwind through the kernel, where most values that are not
/// taken are dropped. The panic hook has reported the panic by then.
struct Contained<T>(Option<T>);

impl<T> Drop for Contained<T> {
    fn drop(&mut self) {
        if std::mem::needs_drop::<T>() {
            let value = self.0.take();
            let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
        }
    }
}

impl<T: Any> Object for Contained<T> {
    fn type_name(&self) -> &'static str {
        std::any::type_name::<T>()
    }
}

/// An error for a value of another type than the expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongType {
    /// The expected type.
    pub wanted: &'static str,
    /// The actual type.
    pub found: &'static str,
}

impl fmt::Display for WrongType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected a value of type {}, found {}", self.wanted, self.found)
    }
}

impl std::error::Error for WrongType {}

/// Moves `value` out as a `U`, if `T` is the same type. The compiler decides this, so it costs
/// nothing at run time.
fn same<T: 'static, U: 'static>(value: &mut Option<T>) -> Option<U> {
    (value as &mut dyn Any).downcast_mut::<Option<U>>().and_then(Option::take)
}

impl Value {
    /// Wraps any value. Integers, floats, `bool`, `()` and `Value` itself allocate nothing.
    pub fn new<T: 'static>(value: T) -> Value {
        let mut value = Some(value);
        macro_rules! in_place {
            ($($kind:ty => $make:expr),+ $(,)?) => {
                $(if TypeId::of::<T>() == TypeId::of::<$kind>() {
                    if let Some(inner) = same::<T, $kind>(&mut value) {
                        return $make(inner);
                    }
                })+
            };
        }
        in_place! {
            () => |()| Value::Unit,
            Value => |v| v,
            bool => Value::Bool,
            i64 => Value::Int,
            i32 => |v| Value::Int(i64::from(v)),
            i16 => |v| Value::Int(i64::from(v)),
            i8 => |v| Value::Int(i64::from(v)),
            u64 => Value::Uint,
            u32 => |v| Value::Uint(u64::from(v)),
            u16 => |v| Value::Uint(u64::from(v)),
            u8 => |v| Value::Uint(u64::from(v)),
            usize => |v| Value::Uint(v as u64),
            f64 => Value::Float,
            Rc<str> => Value::Str,
            &'static str => Value::Static,
        }
        match value {
            Some(value) => Value::Object(Rc::new(Contained(Some(value)))),
            None => Value::Unit,
        }
    }

    /// Moves the value out if this is the only reference. Returns it unchanged if it has another
    /// type or is shared.
    pub fn take<T: 'static>(self) -> Result<T, Value> {
        if TypeId::of::<T>() == TypeId::of::<Value>() {
            return same::<Value, T>(&mut Some(self)).ok_or(Value::Unit);
        }
        if let Value::Object(object) = self {
            if (*object).type_id() != TypeId::of::<Contained<T>>() {
                return Err(Value::Object(object));
            }
            let any: Rc<dyn Any> = object;
            let Ok(typed) = any.downcast::<Contained<T>>() else { return Err(Value::Unit) };
            return match Rc::try_unwrap(typed) {
                Ok(mut contained) => contained.0.take().ok_or(Value::Unit),
                Err(shared) => Err(Value::Object(shared)),
            };
        }
        self.in_place::<T>().ok_or(self)
    }

    /// Returns the value, moved if this is the only reference and cloned otherwise.
    pub fn get<T: Clone + 'static>(self) -> Result<T, WrongType> {
        match self.take::<T>() {
            Ok(value) => Ok(value),
            Err(shared) => shared.borrow::<T>().cloned().ok_or_else(|| shared.mismatch::<T>()),
        }
    }

    /// Borrows an object.
    pub fn borrow<T: 'static>(&self) -> Option<&T> {
        match self {
            Value::Object(object) => {
                let contained = (&**object as &dyn Any).downcast_ref::<Contained<T>>();
                contained.and_then(|contained| contained.0.as_ref())
            }
            _ => None,
        }
    }

    /// Returns the error for a value that is not a `T`.
    pub fn mismatch<T: 'static>(&self) -> WrongType {
        WrongType { wanted: std::any::type_name::<T>(), found: self.type_name() }
    }

    /// Returns the name of the type of the value.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Unit => "()",
            Value::Bool(_) => "bool",
            Value::Int(_) => "i64",
            Value::Uint(_) => "u64",
            Value::Float(_) => "f64",
            Value::Str(_) | Value::Static(_) => "str",
            Value::Object(object) => (**object).type_name(),
        }
    }

    /// Returns a value that is stored inline, as its original type.
    fn in_place<T: 'static>(&self) -> Option<T> {
        macro_rules! out {
            ($kind:ty, $value:expr) => {
                if TypeId::of::<T>() == TypeId::of::<$kind>() {
                    let mut value: Option<$kind> = $value;
                    return same::<$kind, T>(&mut value);
                }
            };
        }
        out!(Value, Some(self.clone()));
        match self {
            Value::Unit => out!((), Some(())),
            Value::Bool(v) => out!(bool, Some(*v)),
            Value::Float(v) => out!(f64, Some(*v)),
            Value::Str(v) => {
                out!(String, Some(v.to_string()));
                out!(Rc<str>, Some(v.clone()));
            }
            Value::Static(v) => {
                out!(&'static str, Some(*v));
                out!(String, Some(v.to_string()));
                out!(Rc<str>, Some((*v).into()));
            }
            Value::Int(v) => {
                out!(i64, Some(*v));
                out!(i32, i32::try_from(*v).ok());
                out!(i16, i16::try_from(*v).ok());
                out!(i8, i8::try_from(*v).ok());
            }
            Value::Uint(v) => {
                out!(u64, Some(*v));
                out!(u32, u32::try_from(*v).ok());
                out!(u16, u16::try_from(*v).ok());
                out!(u8, u8::try_from(*v).ok());
                out!(usize, usize::try_from(*v).ok());
            }
            Value::Object(_) => {}
        }
        None
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Unit => f.write_str("()"),
            Value::Bool(v) => v.fmt(f),
            Value::Int(v) => v.fmt(f),
            Value::Uint(v) => v.fmt(f),
            Value::Float(v) => v.fmt(f),
            Value::Str(v) => v.fmt(f),
            Value::Static(v) => v.fmt(f),
            Value::Object(object) => match self.borrow::<String>() {
                Some(text) => text.fmt(f),
                None => write!(f, "<{}>", (**object).type_name()),
            },
        }
    }
}
