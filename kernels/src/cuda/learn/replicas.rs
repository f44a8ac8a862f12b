//! What replicas of a network do together on cards: gradients summed at the replica that a tensor belongs to, the bf16 copies that
//! products use passed on from there, and parts read by the first of them.
//!
//! It refuses to know how tensors are shared out. The value in `f32` of a tensor that belongs to another replica is that of the
//! beginning: nothing but an update reads it.

use super::param::CardParam;
use crate::cuda::backend::Card;
use crate::cuda::driver::{Driver, Owned};
use crate::cuda::memory::VALUE_BYTES;
use crate::learn::Part;
use crate::ops::OpsError;

impl<D: Driver> Card<D> {
    pub(super) fn reduce_to_owners(
        &self,
        params: &mut dyn Iterator<Item = (&mut CardParam<D>, usize)>,
    ) -> Result<(), OpsError> {
        let mut pieces = Vec::new();
        for (param, owner) in params.filter(|(param, _)| param.values() > 0) {
            pieces.push(Owned { address: param.gradient_at(&self.driver)?, count: param.values(), owner });
        }
        // SAFETY: all gradients have so many values.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.reduce_to_owners(&pieces)
        }
    }

    pub(super) fn spread_copies(
        &self,
        params: &mut dyn Iterator<Item = (&mut CardParam<D>, usize)>,
    ) -> Result<(), OpsError> {
        let owned = |(param, owner): (&mut CardParam<D>, usize)| Owned {
            address: param.copy_at(&self.driver),
            count: param.values() * VALUE_BYTES,
            owner,
        };
        let pieces: Vec<Owned> = params.map(owned).filter(|piece| piece.count > 0).collect();
        // SAFETY: all copies have so many bytes.
        #[allow(unsafe_code)]
        unsafe {
            self.driver.spread_from_owners(&pieces)
        }
    }

    /// Reads a part of a tensor of another replica, some rows at a time, and on that replica passes it on; elsewhere nothing.
    pub(super) fn read_of_owner(
        &self,
        param: &mut CardParam<D>,
        part: Part,
        owner: usize,
        out: &mut Vec<f32>,
    ) -> Result<(), OpsError> {
        let (is_first, is_owner) = (self.driver.replica() == 0, self.driver.replica() == owner);
        out.clear();
        if param.values() == 0 || !(is_first || is_owner) {
            return self.pass(&mut param.pieces().map(|[_, bytes]| Owned { address: 0, count: bytes, owner }));
        }
        if is_owner {
            let base = param.part_at(&self.driver, part)?;
            let mut pieces = param.pieces().map(|[at, bytes]| Owned { address: base + at as u64, count: bytes, owner });
            return self.pass(&mut pieces);
        }
        let mut room = self.room()?;
        for [_, bytes] in param.pieces() {
            let address = room.passed.at_least(&self.driver, "a part of another replica", bytes)?;
            self.pass(&mut [Owned { address, count: bytes, owner }].into_iter())?;
            let mut read = vec![0; bytes];
            room.passed.download(&self.driver, &mut read)?;
            param.take_rows(&read, out);
        }
        Ok(())
    }

    fn pass(&self, pieces: &mut dyn Iterator<Item = Owned>) -> Result<(), OpsError> {
        for piece in pieces {
            // SAFETY: owner and first replica give the address of so many bytes, and others take no part.
            #[allow(unsafe_code)]
            unsafe {
                self.driver.pass_to_first(&piece)?;
            }
        }
        Ok(())
    }
}
