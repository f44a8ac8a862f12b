//! Bytes of a device in host memory, in whatever memory the device copies from and to fastest.
//!
//! It refuses to know what the bytes mean.

use std::ops::{Deref, DerefMut};

/// Memory of the host that a backend has chosen.
pub trait HostMemory: Send {
    /// All of it.
    fn bytes(&self) -> &[u8];

    /// All of it, to be written.
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl HostMemory for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// Bytes in host memory.
pub struct HostBytes(Box<dyn HostMemory>);

impl HostBytes {
    /// Bytes in memory that a backend has chosen.
    pub fn new(memory: impl HostMemory + 'static) -> Self {
        Self(Box::new(memory))
    }
}

impl From<Vec<u8>> for HostBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(bytes)
    }
}

impl Default for HostBytes {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl Deref for HostBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl DerefMut for HostBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

impl PartialEq for HostBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl std::fmt::Debug for HostBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}
