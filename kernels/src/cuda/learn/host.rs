//! Numbers of the host that are combined with those of other ranks or replicas, by way of the card. It refuses to know with whose.

use crate::cuda::backend::Card;
use crate::cuda::driver::Driver;
use crate::ops::OpsError;

impl<D: Driver> Card<D> {
    /// Combines numbers of the host by way of the card.
    pub(super) fn over_host(
        &self,
        values: &mut [f64],
        combine: impl FnOnce(u64, usize) -> Result<(), OpsError>,
    ) -> Result<(), OpsError> {
        if values.is_empty() {
            return Ok(());
        }
        let mut room = self.room()?;
        let words: Vec<u32> = values
            .iter()
            .flat_map(|value| {
                let bits = value.to_bits();
                [bits as u32, (bits >> 32) as u32]
            })
            .collect();
        let at = room.host.put(&self.driver, "numbers of the host", &words)?;
        combine(at, values.len())?;
        let mut bytes = vec![0; size_of_val(values)];
        room.host.download(&self.driver, &mut bytes)?;
        let sums = bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes));
        values.iter_mut().zip(sums).for_each(|(value, sum)| *value = sum);
        Ok(())
    }
}
