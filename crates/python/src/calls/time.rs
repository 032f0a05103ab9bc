//! The calls for time and randomness.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;
use tiffany::Time;

use super::{given, of, plain};
use crate::calls::call::{Op, SystemCall};
use crate::values::errors::{Raise, TiffanyError};

plain! {
    /// Returns the time of the run's clock, in seconds since 1970.
    Now => Op::Now,
    /// Returns a random number from the run's seed, at least 0 and less than 1.
    Random => Op::Random,
    /// Returns a new UUID, as a `uuid.UUID`.
    NewUuid => Op::NewUuid,
}

/// Reads a number of seconds or a `timedelta`.
pub(crate) fn duration(seconds: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let number = match seconds.extract::<f64>() {
        Ok(number) => number,
        Err(_) => match seconds.call_method0("total_seconds").and_then(|s| s.extract::<f64>()) {
            Ok(number) => number,
            Err(_) => {
                let name = seconds.get_type().name()?.to_string();
                let message =
                    format!("`{name}` is not a duration; pass a number of seconds or a timedelta");
                return Err(TiffanyError::BadDuration.err(seconds.py(), message));
            }
        },
    };
    Duration::try_from_secs_f64(number).map_err(|_| {
        let why = match number {
            _ if number.is_nan() => "it is not a number",
            _ if number < 0.0 => "it is negative",
            _ => "it is longer than any clock can measure",
        };
        let message = format!("{number} seconds is not a duration: {why}");
        TiffanyError::BadDuration.err(seconds.py(), message)
    })
}

/// Sleeps for this many seconds, on the run's clock.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Sleep;

#[pymethods]
impl Sleep {
    #[new]
    fn new(seconds: Bound<'_, PyAny>) -> PyResult<PyClassInitializer<Sleep>> {
        Ok(of(Sleep, Op::Sleep(duration(&seconds)?)))
    }

    /// The number of seconds.
    #[getter]
    fn seconds(slf: PyRef<'_, Self>) -> f64 {
        given!(slf, Op::Sleep(duration) => duration.as_secs_f64())
    }
}

/// Sleeps until a time: seconds since 1970, or a `datetime`.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct SleepUntil;

#[pymethods]
impl SleepUntil {
    #[new]
    fn new(when: Bound<'_, PyAny>) -> PyResult<PyClassInitializer<SleepUntil>> {
        let seconds = match when.extract::<f64>() {
            Ok(seconds) => seconds,
            Err(_) => match when.call_method0("timestamp").and_then(|s| s.extract::<f64>()) {
                Ok(seconds) => seconds,
                Err(_) => {
                    let name = when.get_type().name()?.to_string();
                    let message =
                        format!("`{name}` is not a moment; pass seconds since 1970 or a datetime");
                    return Err(TiffanyError::BadDuration.err(when.py(), message));
                }
            },
        };
        let nanos = seconds * 1e9;
        if !(0.0..=u64::MAX as f64).contains(&nanos) {
            let message = format!("{seconds} is not a moment that the clock can represent");
            return Err(TiffanyError::BadDuration.err(when.py(), message));
        }
        let time = Time::from_nanos(nanos as u64);
        Ok(of(SleepUntil, Op::SleepUntil(time)))
    }

    /// The time, in seconds since 1970.
    #[getter]
    fn when(slf: PyRef<'_, Self>) -> f64 {
        given!(slf, Op::SleepUntil(time) => time.as_nanos() as f64 / 1e9)
    }
}
