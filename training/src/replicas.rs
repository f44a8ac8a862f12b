//! Who of several replicas does what: packs of a slot to learn from, and tensors to update, so that all have about as much to do.
//! It refuses to know what the costs are of.

/// For each cost the replica that it falls to: the greatest first, each to the one that has least so far, of several such to the
/// first (Graham's longest processing time). All replicas come to the same.
pub fn shared_out(costs: &[u64], replicas: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by_key(|item| (std::cmp::Reverse(costs[*item]), *item));
    let mut loads = vec![0_u128; replicas.max(1)];
    let mut owners = vec![0; costs.len()];
    for item in order {
        let (owner, load) = loads
            .iter_mut()
            .enumerate()
            .min_by_key(|(replica, load)| (**load, *replica))
            .expect("there is one at least");
        owners[item] = owner;
        // What costs nothing goes around too.
        *load += u128::from(costs[item]) + 1;
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_greatest_go_first_and_each_to_whom_has_least() {
        assert_eq!(shared_out(&[5, 9, 4, 3, 3], 2), [1, 0, 1, 0, 1]);
        assert_eq!(shared_out(&[7, 7, 7], 1), [0; 3]);
        assert_eq!(shared_out(&[0; 4], 4), [0, 1, 2, 3]);
        assert_eq!(shared_out(&[], 3), [0; 0]);
    }

    proptest! {
        #[test]
        fn nobody_has_more_than_the_least_and_one_item(
            costs in prop::collection::vec(0_u64..1_000, 0..40), replicas in 1_usize..9,
        ) {
            let owners = shared_out(&costs, replicas);
            let mut loads = vec![0; replicas];
            for (owner, cost) in owners.iter().zip(&costs) {
                loads[*owner] += cost + 1;
            }
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            prop_assert!(most - least <= costs.iter().max().map_or(0, |cost| cost + 1));
        }
    }
}
