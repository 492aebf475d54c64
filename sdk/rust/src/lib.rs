//! The guest's side of the step ABI for Rust: what a program needs to become a step of the appliance. Nothing but std.
//!
//! A step is a function from tensors to tensors and one macro:
//!
//! ```ignore
//! use edgewise::{List, Outputs, Result};
//!
//! fn process(inputs: &List) -> Result<Outputs> {
//!     let x = inputs.get::<f32>("x")?;
//!     let mut outputs = Outputs::new();
//!     outputs.push("y", x.shape(), x.values().iter().map(|v| v * 2.0).collect());
//!     Ok(outputs)
//! }
//!
//! edgewise::step!(process, r#"{"inputs": [...], "outputs": [...]}"#);
//! ```
//!
//! Inputs are views of the block that the box wrote, and outputs are read where they are: nothing is copied. A panic stops
//! the step; its message goes to the log.

mod abi;
mod kernel;
mod output;
mod resample;
mod sound;
mod tensor;

pub use abi::{emit, infer, last_error, log, parameter, Level};
pub use kernel::*;
pub use output::Outputs;
pub use sound::{read_sound, Sound, MAX_CHANNELS, MAX_SAMPLE_RATE, MIN_SAMPLE_RATE};
pub use tensor::{type_name, BFloat16, Bool, Element, Half, List, Tensor, View, BYTES};

#[doc(hidden)]
pub use abi::{alloc, describe, reset, run, start};

/// Why a step failed: the text that the caller of the step reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub String);

impl Error {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Error(message.into())
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<String> for Error {
    fn from(message: String) -> Self {
        Error(message)
    }
}

impl From<&str> for Error {
    fn from(message: &str) -> Self {
        Error(message.into())
    }
}

/// What functions of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

/// A parameter read as a number within `low..=high`, `fallback` where it is not set.
pub fn number_parameter<T>(name: &str, fallback: T, low: T, high: T) -> Result<T>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    let text = match parameter(name) {
        None => return Ok(fallback),
        Some(text) => text,
    };
    match text.parse::<T>() {
        Ok(value) if value >= low && value <= high => Ok(value),
        _ => Err(Error(format!("parameter {:?} is {:?}: want a number from {} to {}", name, text, low, high))),
    }
}

/// Makes `process`, a `fn(&List) -> Result<Outputs>`, the step of this module, with the JSON document that
/// describes it. Once in a module.
#[macro_export]
macro_rules! step {
    ($process:expr, $description:expr) => {
        #[no_mangle]
        pub extern "C" fn edgewise_step_v1() {
            $crate::start()
        }
        #[no_mangle]
        pub extern "C" fn edgewise_alloc(size: u32, align: u32) -> *mut u8 {
            $crate::alloc(size, align)
        }
        #[no_mangle]
        pub extern "C" fn edgewise_reset() {
            $crate::reset()
        }
        #[no_mangle]
        pub extern "C" fn edgewise_describe() -> *const u8 {
            $crate::describe($description)
        }
        #[no_mangle]
        pub extern "C" fn edgewise_process(inputs: u32) -> u32 {
            $crate::run(inputs, $process)
        }
    };
}
