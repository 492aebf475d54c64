//! Tensors in place.

use crate::{Error, Result};
use std::marker::PhantomData;

/// The element type of tensors whose elements are byte strings.
pub const BYTES: u32 = 13;

/// The bit pattern of an FP16 element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Half(pub u16);

/// The bit pattern of a BF16 element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct BFloat16(pub u16);

mod sealed {
    pub trait Sealed {}
}

/// A type that elements of a tensor are viewed as.
pub trait Element: Copy + sealed::Sealed + 'static {
    /// The number of the element type in the protocol.
    const TYPE: u32;
}

macro_rules! element {
    ($($rust:ty = $number:expr),*) => { $(
        impl sealed::Sealed for $rust {}
        impl Element for $rust { const TYPE: u32 = $number; }
    )* };
}
// BOOL is not viewed as bool: its bytes are the client's, and a bool that is neither 0 nor 1 is undefined behaviour.
element!(Bool = 1, u8 = 2, u16 = 3, u32 = 4, u64 = 5, i8 = 6, i16 = 7, i32 = 8, i64 = 9, Half = 10, f32 = 11, f64 = 12, BFloat16 = 14);

/// A BOOL element: 0 is false, all else is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Bool(pub u8);

/// The name of an element type on the wire.
pub fn type_name(number: u32) -> &'static str {
    const NAMES: [&str; 15] =
        ["?", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES", "BF16"];
    NAMES.get(number as usize).copied().unwrap_or("?")
}

/// A tensor: the record of the ABI itself, so that a list from the box is read in place.
#[repr(C)]
pub struct Tensor {
    pub(crate) name: *const u8,
    pub(crate) name_len: u32,
    pub(crate) dtype: u32,
    pub(crate) rank: u32,
    pub(crate) shape: *const i64,
    pub(crate) data: *mut u8,
    pub(crate) data_len: u64,
}

fn slice<'a, T>(pointer: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    // Safety: the box writes records whose pointers, alignments and lengths are right.
    unsafe { std::slice::from_raw_parts(pointer, len) }
}

impl Tensor {
    /// The tensor's name.
    pub fn name(&self) -> &str {
        std::str::from_utf8(slice(self.name, self.name_len as usize)).unwrap_or("")
    }

    /// The number of the element type.
    pub fn dtype(&self) -> u32 {
        self.dtype
    }

    /// The size of each dimension.
    pub fn shape(&self) -> &[i64] {
        slice(self.shape, self.rank as usize)
    }

    /// The elements as bytes.
    pub fn data(&self) -> &[u8] {
        slice(self.data, self.data_len as usize)
    }

    /// The elements in place; `None` when they have another type.
    pub fn view<T: Element>(&self) -> Option<View<'_, T>> {
        (self.dtype == T::TYPE).then(|| View { tensor: self, element: PhantomData })
    }

    /// The elements of a BYTES tensor, in place. It ends at a frame that is not whole, and at once for other types.
    pub fn elements(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = if self.dtype == BYTES { self.data() } else { &[] };
        std::iter::from_fn(move || {
            let size = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?) as usize;
            let element = rest.get(4..4usize.checked_add(size)?)?;
            rest = &rest[4 + size..];
            Some(element)
        })
    }
}

/// A tensor whose elements are known to be `T`.
pub struct View<'a, T: Element> {
    tensor: &'a Tensor,
    element: PhantomData<T>,
}

impl<'a, T: Element> View<'a, T> {
    /// The elements, row-major, in place.
    pub fn values(&self) -> &'a [T] {
        let size = std::mem::size_of::<T>();
        slice(self.tensor.data as *const T, self.tensor.data_len as usize / size)
    }

    /// The size of each dimension.
    pub fn shape(&self) -> &'a [i64] {
        self.tensor.shape()
    }
}

/// The inputs of a step, or the outputs of another model.
pub struct List {
    tensors: &'static [Tensor],
}

impl List {
    /// Safety: `pointer` is a list of the ABI that outlives the result.
    pub(crate) unsafe fn at(pointer: u32) -> List {
        let count = *(pointer as *const u32) as usize;
        List { tensors: slice((pointer + 8) as *const Tensor, count) }
    }

    /// All tensors.
    pub fn iter(&self) -> std::slice::Iter<'_, Tensor> {
        self.tensors.iter()
    }

    /// The tensor called `name`, for optional inputs.
    pub fn find(&self, name: &str) -> Option<&Tensor> {
        self.iter().find(|t| t.name() == name)
    }

    /// The tensor called `name`, whose elements must be `T`.
    pub fn get<T: Element>(&self, name: &str) -> Result<View<'_, T>> {
        let t = self.find(name).ok_or_else(|| Error(format!("input {:?} is missing", name)))?;
        t.view::<T>().ok_or_else(|| Error(format!("input {:?} is {}: want {}", name, type_name(t.dtype), type_name(T::TYPE))))
    }

    /// The BYTES tensor called `name`.
    pub fn get_bytes(&self, name: &str) -> Result<&Tensor> {
        let t = self.find(name).ok_or_else(|| Error(format!("input {:?} is missing", name)))?;
        if t.dtype != BYTES {
            return Err(Error(format!("input {:?} is {}: want BYTES", name, type_name(t.dtype))));
        }
        Ok(t)
    }
}
