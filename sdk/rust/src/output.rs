//! Building a list.

use crate::tensor::{Element, Tensor, BYTES};
use std::any::Any;

/// The outputs of a step, or the inputs for another model. It owns its elements.
#[derive(Default)]
pub struct Outputs {
    tensors: Vec<Tensor>,
    owned: Vec<Box<dyn Any>>,
    block: Vec<u64>,
}

impl Outputs {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor. `values` is moved, not copied; its length is the product of `shape`, which the box checks.
    pub fn push<T: Element>(&mut self, name: &str, shape: &[i64], mut values: Vec<T>) {
        let bytes = values.len() * std::mem::size_of::<T>();
        let data = values.as_mut_ptr() as *mut u8;
        self.record(name, T::TYPE, shape, data, bytes, Box::new(values));
    }

    /// Adds a BYTES tensor with a copy of each element.
    pub fn push_bytes<S: AsRef<[u8]>>(&mut self, name: &str, shape: &[i64], elements: &[S]) {
        let mut data = Vec::with_capacity(elements.iter().map(|e| 4 + e.as_ref().len()).sum());
        for e in elements {
            data.extend_from_slice(&(e.as_ref().len() as u32).to_le_bytes());
            data.extend_from_slice(e.as_ref());
        }
        let (at, bytes) = (data.as_mut_ptr(), data.len());
        self.record(name, BYTES, shape, at, bytes, Box::new(data));
    }

    /// Adds a tensor of any type with the elements as bytes.
    pub fn push_raw(&mut self, name: &str, dtype: u32, shape: &[i64], mut data: Vec<u8>) {
        let (at, bytes) = (data.as_mut_ptr(), data.len());
        self.record(name, dtype, shape, at, bytes, Box::new(data));
    }

    fn record(&mut self, name: &str, dtype: u32, shape: &[i64], data: *mut u8, bytes: usize, owner: Box<dyn Any>) {
        let (name, shape) = (name.to_owned().into_boxed_str(), shape.to_vec().into_boxed_slice());
        self.tensors.push(Tensor {
            name: name.as_ptr(),
            name_len: name.len() as u32,
            dtype,
            rank: shape.len() as u32,
            shape: shape.as_ptr(),
            data,
            data_len: bytes as u64,
        });
        self.owned.push(Box::new((name, shape, owner)));
    }

    /// Writes the list as the ABI has it and returns where. It stays there until self is dropped.
    pub(crate) fn encode(&mut self) -> u32 {
        self.block = Vec::with_capacity(1 + self.tensors.len() * 4);
        self.block.push(self.tensors.len() as u64);
        for t in &self.tensors {
            // Safety: a record is 32 bytes without padding.
            self.block.extend_from_slice(unsafe { std::slice::from_raw_parts(t as *const Tensor as *const u64, 4) });
        }
        self.block.as_ptr() as u32
    }
}
