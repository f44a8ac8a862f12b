//! Room for what a task needs for a moment, kept by its thread, so that an operation allocates only until it has run once.
//!
//! It refuses to know what is kept in it, and says nothing of what it holds at first.

use std::cell::RefCell;
use std::thread::LocalKey;

/// Buffers of a thread that are free.
type Free<T> = RefCell<Vec<Vec<T>>>;

thread_local! {
    static SINGLES: Free<f32> = const { RefCell::new(Vec::new()) };
    static DOUBLES: Free<f64> = const { RefCell::new(Vec::new()) };
}

/// Runs over `len` values, which are left from before. What runs may ask for more of them.
pub(super) fn singles<R>(len: usize, run: impl FnOnce(&mut [f32]) -> R) -> R {
    lend(&SINGLES, len, run)
}

/// As [`singles`].
pub(super) fn doubles<R>(len: usize, run: impl FnOnce(&mut [f64]) -> R) -> R {
    lend(&DOUBLES, len, run)
}

fn lend<T: Copy + Default, R>(free: &'static LocalKey<Free<T>>, len: usize, run: impl FnOnce(&mut [T]) -> R) -> R {
    let mut buffer = free.with_borrow_mut(Vec::pop).unwrap_or_default();
    if buffer.len() < len {
        buffer.resize(len, T::default());
    }
    let result = run(&mut buffer[..len]);
    free.with_borrow_mut(|free| free.push(buffer));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asks_while_it_has_some_gets_others() {
        singles(4, |outer| {
            outer.fill(1.0);
            singles(8, |inner| inner.fill(2.0));
            assert_eq!(outer, [1.0; 4]);
        });
        doubles(3, |values| assert_eq!(values.len(), 3));
    }
}
