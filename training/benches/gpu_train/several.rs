//! Several cards beside one: a model cut among them, replicas of it, or both.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench ends where its machine does")]

use super::{Keeps, OnCard, Steps, Table, network, pack, print_spent, steps, watched};
use legwork_kernels::cuda::{GroupName, Nvidia, Seat, Spent};
use legwork_kernels::{Group, Member, Ops};
use std::collections::BTreeMap;
use std::time::Instant;

/// Ranks among which the model is cut have one pack, replicas one each.
pub(super) fn on_several(
    table: &Table<'_>,
    [tp, dp]: [usize; 2],
    keeps: Keeps,
    one: &[(usize, f64)],
    is_profiled: bool,
) {
    let config = table.config;
    let longest = one.iter().map(|(length, _)| *length).max().unwrap_or(1);
    let run = |[of_rank, of_replica]: [Option<Seat>; 2], number: usize| {
        let card = Nvidia::open_seated(number, None, of_rank, of_replica).unwrap();
        let mut network = network(card, config, longest, keeps);
        let replica = number / tp;
        let mut done = 0;
        let mut measured = Vec::new();
        for (at, (length, _)) in one.iter().enumerate() {
            let mut pack = pack(config, *length, replica as u32 + 1);
            pack.weights.iter_mut().for_each(|weight| *weight /= dp as f32);
            let packs = [pack];
            measured.push(steps(&mut network, &packs, &mut done));
            if is_profiled && at == 0 {
                let spent = watched(&mut network, &packs[0], &mut done);
                // All of them sum at the same time; one of them tells of it.
                let of_sums = sums_alone(&network, *length, &spent);
                if number == 0 {
                    print_spent(*length, &spent);
                    println!(
                        "  sums over ranks, one after another and nothing else: {:.1} ms, {:.1} % of a step",
                        of_sums * 1e3,
                        100.0 * of_sums / measured[at].seconds
                    );
                }
            }
        }
        measured
    };
    let all: Vec<Vec<Steps>> = std::thread::scope(|scope| {
        let run = &run;
        let start = |(number, seats)| scope.spawn(move || run(seats, number));
        let threads: Vec<_> = seats([tp, dp]).into_iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for ((length, of_one), steps) in one.iter().zip(&all[0]) {
        table.line([tp, dp], keeps, *length, steps, Some(*of_one));
    }
}

/// For each card its seat among the ranks of its replica, and among the replicas of its rank.
fn seats([tp, dp]: [usize; 2]) -> Vec<[Option<Seat>; 2]> {
    let groups = |groups: usize, ranks: usize| -> Vec<Vec<Option<Seat>>> {
        let group = |_| {
            let name = (ranks > 1).then(|| GroupName::new().unwrap());
            let seat = |member: Member| {
                name.map(|name| Seat { name, rank: member.rank(), ranks: member.ranks(), meeting: Some(member) })
            };
            Group::of(ranks).into_iter().map(seat).collect()
        };
        (0..groups).map(group).collect()
    };
    let (mut of_ranks, mut of_replicas) = (groups(dp, tp), groups(tp, dp));
    (0..tp * dp)
        .map(|number| [of_ranks[number / tp][number % tp].take(), of_replicas[number % tp][number / tp].take()])
        .collect()
}

/// What a step's sums over ranks take, in seconds, while nothing else is done.
fn sums_alone(network: &OnCard, tokens: usize, spent: &BTreeMap<&'static str, Spent>) -> f64 {
    let launches = spent.get("sum over ranks").map_or(0, |spent| spent.launches);
    let ops = network.ops();
    let mut stream = ops.rows(tokens, network.config().hidden).unwrap();
    ops.set_rows(&mut stream, tokens).unwrap();
    ops.all_reduce(&mut stream).unwrap();
    ops.driver().card().wait_for_all().unwrap();
    let began = Instant::now();
    (0..launches).for_each(|_| ops.all_reduce(&mut stream).unwrap());
    ops.driver().card().wait_for_all().unwrap();
    began.elapsed().as_secs_f64()
}
