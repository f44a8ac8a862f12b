//! What every backend of [`Learn`] must compute: each operation, forward and back, beside candle's autograd and beside
//! differences of its formula, on shapes that straddle tiles and registers. A backend calls [`learns`] and [`shards`] with its
//! tolerance; the processor does at each of its levels.

#![allow(clippy::unwrap_used, reason = "a test")]

#[cfg(feature = "cuda")]
#[path = "learn/card.rs"]
mod card;
#[path = "learn/checks.rs"]
mod checks;
#[cfg(feature = "cuda")]
#[path = "conformance/emulated.rs"]
mod emulated;
#[path = "learn/formulas.rs"]
mod formulas;
#[path = "learn/graphs.rs"]
mod graphs;
#[path = "learn/updates.rs"]
mod updates;

use checks::{Case, Dice, Precision, fill, near, part, read, spoiled, wide};
use legwork_kernels::cpu::panel::Level;
use legwork_kernels::cpu::team::together;
use legwork_kernels::{Cpu, Group, Heads, Learn, Ops, OpsError, Part, Rope};

/// Every operation of a backend.
fn learns<B: Learn>(ops: &B, precision: Precision) {
    let dice = &mut Dice(11, precision.round);
    for (rows, inputs, outputs) in [(1, 75, 37), (7, 16, 130), (33, 129, 64), (70, 200, 19)] {
        linear(ops, precision, dice, [rows, inputs, outputs]);
    }
    for (rows, width) in [(1, 48), (7, 77), (33, 130), (150, 20)] {
        norm(ops, precision, dice, [rows, width]);
        swiglu(ops, precision, dice, [rows, width]);
    }
    table(ops, precision, dice);
    moves(ops, precision, dice);
    for (heads, rows) in [([4, 2, 20], 7), ([3, 1, 16], 1), ([2, 2, 64], 70)] {
        let heads = Heads { query: heads[0], kv: heads[1], dim: heads[2] };
        for (interleaved, normed, scale) in
            [(false, true, 1.0), (true, true, 0.8), (true, false, 1.3), (false, false, 1.0)]
        {
            rotation(ops, precision, dice, (heads, rows), (interleaved, normed, scale));
        }
    }
    for ([query, kv, dim], lengths) in [
        ([4, 1, 16], vec![1, 63, 64, 65]),
        ([2, 2, 64], vec![65, 0, 1, 130]),
        ([8, 2, 128], vec![33, 64]),
        ([3, 3, 20], vec![7]),
    ] {
        attention(ops, precision, dice, Heads { query, kv, dim }, &lengths);
    }
    for (rows, width, columns) in [(1, 9, 9), (7, 77, 70), (33, 2_500, 2_499)] {
        loss(ops, precision, dice, [rows, width, columns]);
    }
    updates::updates(ops, precision.single, dice);
}

/// Of what is done to single rows, and of the gradients of learned tensors.
fn rows_of(precision: Precision) -> (f64, f64) {
    (precision.rows, precision.single)
}

/// A tensor whose gradient is not 0 at first, since what comes is added.
fn param<B: Learn>(ops: &B, shape: [usize; 2], values: &[f32]) -> B::Param {
    let mut param = ops.param(shape, values).unwrap();
    assert_eq!(ops.param_shape(&param), shape);
    ops.write_param(&mut param, Part::Gradient, &vec![0.5; values.len()]).unwrap();
    param
}

/// What came to the gradient of such a tensor.
fn added<B: Learn>(ops: &B, param: &B::Param) -> Vec<f32> {
    part(ops, param, Part::Gradient).iter().map(|gradient| gradient - 0.5).collect()
}

fn linear<B: Learn>(ops: &B, precision: Precision, dice: &mut Dice, [rows, inputs, outputs]: [usize; 3]) {
    let (x, weight, bias) = (dice.many(rows * inputs), dice.many(outputs * inputs), dice.many(outputs));
    let d_out = dice.many(rows * outputs);
    let (mut weights, mut biases) = (param(ops, [outputs, inputs], &weight), param(ops, [1, outputs], &bias));
    let (of_x, of_d) = (fill(ops, &x, rows), fill(ops, &d_out, rows));
    let (mut out, mut dx) = (spoiled(ops, rows, outputs), spoiled(ops, rows, inputs));
    ops.linear_forward(&of_x, &weights, Some(&biases), &mut out).unwrap();
    ops.linear_backward(&of_x, &mut weights, Some(&mut biases), &of_d, Some(&mut dx)).unwrap();
    let case = Case {
        what: format!("linear, {rows} rows of {inputs} to {outputs}"),
        inputs: &[(&x, rows), (&weight, outputs), (&bias, 1)],
        d_out: &d_out,
        out: &read(ops, &out),
        gradients: &[read(ops, &dx), added(ops, &weights), added(ops, &biases)],
    };
    // A library may round a product before it adds the bias.
    case.check(rows_of(precision), formulas::linear, graphs::linear, dice);
    // Without bias, and without a gradient of what went in.
    ops.linear_forward(&of_x, &weights, None, &mut out).unwrap();
    let plain = [(wide(&x), rows), (wide(&weight), outputs), (vec![0.0; outputs], 1)];
    near("linear without bias", &read(ops, &out), &formulas::linear(&plain), precision.product);
    let before = part(ops, &weights, Part::Gradient);
    ops.zero_gradient(&mut weights).unwrap();
    ops.linear_backward(&of_x, &mut weights, None, &of_d, None).unwrap();
    let expected: Vec<f64> = before.iter().map(|gradient| f64::from(*gradient) - 0.5).collect();
    near("linear, again", &part(ops, &weights, Part::Gradient), &expected, precision.single);
    assert!(ops.linear_forward(&of_d, &weights, None, &mut out).is_err() || inputs == outputs);
}

fn norm<B: Learn>(ops: &B, precision: Precision, dice: &mut Dice, [rows, width]: [usize; 2]) {
    let (x, weight, d_out) = (dice.many(rows * width), dice.many(width), dice.many(rows * width));
    let (of_x, of_d, mut weights) = (fill(ops, &x, rows), fill(ops, &d_out, rows), param(ops, [1, width], &weight));
    let (mut out, mut dx) = (spoiled(ops, rows, width), fill(ops, &vec![0.25; rows * width], rows));
    ops.norm_forward(&of_x, &weights, 1e-5, &mut out).unwrap();
    ops.norm_backward(&of_x, &mut weights, 1e-5, &of_d, &mut dx).unwrap();
    let dx: Vec<f32> = read(ops, &dx).iter().map(|dx| dx - 0.25).collect();
    // Of a sum, at once and one after the other.
    let (mut sum, mut normed, mut again) = [0; 3].map(|_| spoiled(ops, rows, width)).into();
    ops.sum_norm_into(&of_x, &of_d, (&weights, 1e-5), &mut sum, &mut normed).unwrap();
    ops.norm_forward(&sum, &weights, 1e-5, &mut again).unwrap();
    assert_eq!(read(ops, &normed), read(ops, &again));
    ops.sum_into(&of_x, &of_d, &mut again).unwrap();
    assert_eq!(read(ops, &sum), read(ops, &again));
    let sums: Vec<f64> = x.iter().zip(&d_out).map(|(x, d)| f64::from(*x) + f64::from(*d)).collect();
    near("sum", &read(ops, &sum), &sums, precision.product);
    let case = Case {
        what: format!("norm, {rows} rows of {width}"),
        inputs: &[(&x, rows), (&weight, 1)],
        d_out: &d_out,
        out: &read(ops, &out),
        gradients: &[dx, added(ops, &weights)],
    };
    case.check(rows_of(precision), |inputs| formulas::norm(inputs, 1e-5), |inputs| graphs::norm(inputs, 1e-5), dice);
}

fn swiglu<B: Learn>(ops: &B, precision: Precision, dice: &mut Dice, [rows, width]: [usize; 2]) {
    let x = precision.rounded(dice.many(rows * 2 * width), |x| x * 6.0);
    let d_out = dice.many(rows * width);
    let (of_x, of_d) = (fill(ops, &x, rows), fill(ops, &d_out, rows));
    let (mut out, mut dx) = (spoiled(ops, rows, width), spoiled(ops, rows, 2 * width));
    ops.swiglu(&of_x, &mut out).unwrap();
    ops.swiglu_backward(&of_x, &of_d, &mut dx).unwrap();
    let case = Case {
        what: format!("swiglu, {rows} rows of {width}"),
        inputs: &[(&x, rows)],
        d_out: &d_out,
        out: &read(ops, &out),
        gradients: &[read(ops, &dx)],
    };
    case.check(rows_of(precision), formulas::swiglu, graphs::swiglu, dice);
}

/// A table of ids 100 to 119: others are another rank's.
fn table<B: Learn>(ops: &B, precision: Precision, dice: &mut Dice) {
    let (width, first) = (37, 100_u32);
    let (values, ids) = (dice.many(20 * width), [119_u32, 100, 7, 100, 120, 103, 100]);
    let d_out = dice.many(ids.len() * width);
    let mut table = param(ops, [20, width], &values);
    let mut out = spoiled(ops, ids.len(), width);
    ops.embed_forward(&table, first, &ids, &mut out).unwrap();
    ops.embed_backward(&mut table, first, &ids, &fill(ops, &d_out, ids.len())).unwrap();
    let (mut expected, mut gradient) = (vec![0.0; ids.len() * width], vec![0.0; 20 * width]);
    for (row, id) in ids.iter().enumerate().filter(|(_, id)| (100..120).contains(*id)) {
        let at = (id - first) as usize * width;
        expected[row * width..][..width].copy_from_slice(&wide(&values[at..at + width]));
        gradient[at..at + width].iter_mut().zip(&d_out[row * width..]).for_each(|(sum, d)| *sum += f64::from(*d));
    }
    near("embed", &read(ops, &out), &expected, 0.0);
    near("embed, gradient", &added(ops, &table), &gradient, precision.single);
}

/// What only moves and adds rows.
fn moves<B: Learn>(ops: &B, precision: Precision, dice: &mut Dice) {
    let (rows, width) = (9, 21);
    let (x, y) = (dice.many(rows * width), dice.many(3 * width));
    let (mut of_x, of_y) = (fill(ops, &x, rows), fill(ops, &y, 3));
    let mut copy = spoiled(ops, rows, width);
    ops.copy(&of_x, &mut copy).unwrap();
    assert_eq!(read(ops, &copy), x);
    ops.add(&mut copy, &of_x).unwrap();
    near("add", &read(ops, &copy), &x.iter().map(|x| f64::from(x + x)).collect::<Vec<_>>(), precision.single);
    ops.pick_backward(&of_y, &[8, 2, 8], &mut of_x).unwrap();
    let mut expected = wide(&x);
    for (row, y) in [8, 2, 8].iter().zip(y.chunks_exact(width)) {
        expected[row * width..][..width].iter_mut().zip(y).for_each(|(x, y)| *x += f64::from(*y));
    }
    near("pick, back", &read(ops, &of_x), &expected, precision.product);
    assert!(ops.pick_backward(&of_y, &[0, 1, 9], &mut of_x).is_err(), "there are 9 rows");
    ops.zero(&mut copy, 4).unwrap();
    assert_eq!(read(ops, &copy), vec![0.0; 4 * width]);
    assert!(ops.zero(&mut copy, rows + 1).is_err() && ops.add(&mut copy, &of_x).is_err());
}

fn rotation<B: Learn>(
    ops: &B,
    precision: Precision,
    dice: &mut Dice,
    (heads, rows): (Heads, usize),
    (interleaved, normed, scale): (bool, bool, f32),
) {
    let frequencies: Vec<f32> = (0..heads.dim / 2).map(|i| 0.7_f32.powi(i as i32)).collect();
    let rope = Rope { frequencies, interleaved, scale };
    let positions: Vec<u32> = (0..rows).map(|row| (row * 37 % 101) as u32).collect();
    let (x, d_out) = (dice.many(rows * heads.fused()), dice.many(rows * heads.fused()));
    let norms = [dice.many(heads.dim), dice.many(heads.dim)];
    let [mut query, mut key] = norms.each_ref().map(|norm| param(ops, [1, heads.dim], norm));
    let (before, mut out, mut d) = (fill(ops, &x, rows), fill(ops, &x, rows), fill(ops, &d_out, rows));
    let eps = 1e-6;
    ops.rotate_forward(&mut out, heads, normed.then_some((&query, &key, eps)), &rope, &positions).unwrap();
    let mut elsewhere = spoiled(ops, rows, heads.fused());
    let norms_of = normed.then_some((&query, &key, eps));
    ops.rotate_into(&before, &mut elsewhere, heads, norms_of, &rope, &positions).unwrap();
    assert_eq!(read(ops, &elsewhere), read(ops, &out));
    let both = normed.then_some((&mut query, &mut key, eps));
    ops.rotate_backward(&before, heads, both, &rope, &positions, &mut d).unwrap();
    let all = [(x.as_slice(), rows), (norms[0].as_slice(), 1), (norms[1].as_slice(), 1)];
    let count = if normed { 3 } else { 1 };
    let case = Case {
        what: format!("rotation, {heads:?}, interleaved {interleaved}, normed {normed}, scale {scale}"),
        inputs: &all[..count],
        d_out: &d_out,
        out: &read(ops, &out),
        gradients: &[read(ops, &d), added(ops, &query), added(ops, &key)][..count],
    };
    case.check(
        rows_of(precision),
        |inputs| formulas::rotate(inputs, heads, eps, &rope, &positions),
        |inputs| graphs::rotate(inputs, heads, eps, &rope, &positions),
        dice,
    );
    if !normed {
        assert_eq!([added(ops, &query), added(ops, &key)], [vec![0.0; heads.dim], vec![0.0; heads.dim]]);
    }
}

fn attention<B: Learn>(ops: &B, precision: Precision, dice: &mut Dice, heads: Heads, lengths: &[u32]) {
    let mut starts = vec![0];
    lengths.iter().for_each(|length| starts.push(starts[starts.len() - 1] + length));
    let rows = starts[starts.len() - 1] as usize;
    let x = precision.rounded(dice.many(rows * heads.fused()), |x| x * 1.5);
    let d_out = dice.many(rows * heads.width());
    let (qkv, of_d) = (fill(ops, &x, rows), fill(ops, &d_out, rows));
    let (mut out, mut lse) = (spoiled(ops, rows, heads.width()), ops.sums(rows, heads.query).unwrap());
    let mut d_qkv = spoiled(ops, rows, heads.fused());
    ops.attend_forward(&qkv, heads, &starts, &mut out, &mut lse).unwrap();
    ops.attend_backward(&qkv, heads, &starts, &out, &lse, &of_d, &mut d_qkv).unwrap();
    let case = Case {
        what: format!("attention, {heads:?}, {lengths:?}"),
        inputs: &[(&x, rows)],
        d_out: &d_out,
        out: &read(ops, &out),
        gradients: &[read(ops, &d_qkv)],
    };
    let formula = |inputs: &formulas::Inputs| formulas::attend(inputs, heads, &starts);
    let mut sums = Vec::new();
    ops.read_sums(&lse, &mut sums).unwrap();
    near(&format!("{}, lse", case.what), &sums, &formula(&[(wide(&x), rows)]).1, precision.single);
    case.check(
        (precision.attention, precision.single),
        |inputs| formula(inputs).0,
        |inputs| graphs::attend(inputs, heads, &starts),
        dice,
    );
    for wrong in [vec![], vec![0], vec![1, rows as u32], vec![0, rows as u32 + 1], vec![0, 5, 3, rows as u32]] {
        assert!(ops.attend_forward(&qkv, heads, &wrong, &mut out, &mut lse).is_err(), "{wrong:?}");
    }
}

fn loss<B: Learn>(ops: &B, precision: Precision, dice: &mut Dice, [rows, width, columns]: [usize; 3]) {
    let x = precision.rounded(dice.many(rows * width), |x| x * 20.0);
    let targets: Vec<u32> = (0..rows).map(|_| dice.below(columns) as u32).collect();
    let weights: Vec<f32> = dice.many(rows).iter().map(|weight| weight + 1.0).collect();
    let (mut logits, mut losses) = (fill(ops, &x, rows), vec![1.0]);
    ops.cross_entropy(&mut logits, 0, columns, &targets, &weights, &mut losses).unwrap();
    let weighted: Vec<f32> = losses.iter().zip(&weights).map(|(loss, weight)| loss * weight).collect();
    let case = Case {
        what: format!("cross-entropy, {rows} rows, {columns} of {width} columns"),
        inputs: &[(&x, rows)],
        d_out: &vec![1.0; rows],
        out: &weighted,
        gradients: &[read(ops, &logits)],
    };
    let formula = |inputs: &formulas::Inputs| formulas::cross_entropy(inputs, columns, &targets, &weights);
    case.check(
        (precision.product, precision.single),
        formula,
        |inputs| graphs::cross_entropy(inputs, columns, &targets, &weights),
        dice,
    );
    let padding = case.gradients[0].chunks_exact(width).flat_map(|row| &row[columns..]);
    assert!(padding.clone().all(|gradient| *gradient == 0.0));
    let beyond = vec![columns as u32; rows];
    let refused = ops.cross_entropy(&mut logits, 0, columns, &beyond, &weights, &mut losses).unwrap_err();
    assert!(refused.to_string().contains(&format!("expected a target below {columns}")), "{refused}");
}

/// Ranks of one group give together what one gives alone.
fn shards<B: Learn + Send>(alone: &B, ranks: Vec<B>, precision: Precision) {
    let tolerance = precision.product;
    let (dice, rows, columns) = (&mut Dice(5, precision.round), 13, 70);
    // Of four ranks, the last has nothing but padding.
    let (count, share) = (ranks.len(), 120 / ranks.len());
    let width = count * share;
    let x = precision.rounded(dice.many(rows * width), |x| x * 9.0);
    let targets: Vec<u32> = (0..rows).map(|_| dice.below(columns) as u32).collect();
    let weights = dice.many(rows);
    let (mut logits, mut losses) = (fill(alone, &x, rows), Vec::new());
    alone.cross_entropy(&mut logits, 0, columns, &targets, &weights, &mut losses).unwrap();
    let expected = read(alone, &logits);
    let of_rank = |ops: &B| {
        let (rank, first) = (ops.rank(), ops.rank() * share);
        assert_eq!(ops.ranks(), count);
        let columns_of = |all: &[f32]| -> Vec<f32> {
            all.chunks_exact(width).flat_map(|row| row[first..first + share].to_vec()).collect()
        };
        let (mut logits, mut losses) = (fill(ops, &columns_of(&x), rows), Vec::new());
        ops.cross_entropy(&mut logits, first as u32, columns, &targets, &weights, &mut losses).unwrap();
        near("sharded gradients", &read(ops, &logits), &wide(&columns_of(&expected)), tolerance);
        let mut sum = fill(ops, &[rank as f32, 0.1, 1e-3 * rank as f32], 1);
        ops.all_reduce(&mut sum).unwrap();
        let mut param = ops.param([1, 2], &[0.0, 0.0]).unwrap();
        ops.write_param(&mut param, Part::Gradient, &[1.0, rank as f32]).unwrap();
        ops.all_reduce_gradient(&mut param).unwrap();
        let ranks: f64 = (0..count).map(|rank| rank as f64).sum();
        near("gradients of all", &part(ops, &param, Part::Gradient), &[count as f64, ranks], tolerance);
        let mut host = [rank as f64, 1e-9];
        ops.all_reduce_host(&mut host).unwrap();
        assert_eq!(host[0], ranks);
        near("rows of all", &read(ops, &sum), &[ranks, 0.1 * count as f64, 1e-3 * ranks], tolerance);
        (losses, read(ops, &sum))
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = ranks.into_iter().map(|ops| scope.spawn(move || of_rank(&ops))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (of_rank, sum) in &results {
        near("sharded losses", of_rank, &wide(&losses), precision.single.max(2e-6));
        assert_eq!((of_rank, sum), (&results[0].0, &results[0].1), "all ranks have the same bits");
    }
}

fn ranks_of(count: usize) -> Vec<Cpu> {
    Group::of(count).into_iter().map(|member| Cpu::new().with_member(member)).collect()
}

#[test]
fn the_processor_learns_at_every_level() {
    for level in Level::available() {
        learns(&Cpu::at(level), Precision::single(2e-5));
    }
}

#[test]
fn ranks_that_are_threads_give_what_one_gives_alone() {
    for count in [2, 4] {
        shards(&Cpu::new(), ranks_of(count), Precision::single(2e-6));
    }
}

#[test]
fn a_target_that_no_rank_has_is_every_ranks_error() {
    std::thread::scope(|scope| {
        for ops in ranks_of(2) {
            scope.spawn(move || {
                let mut logits = fill(&ops, &[0.0; 3], 1);
                let first = ops.rank() as u32 * 3;
                let refused = ops.cross_entropy(&mut logits, first, 5, &[5], &[1.0], &mut Vec::new()).unwrap_err();
                assert!(refused.to_string().contains("got 5, which 0 ranks have"), "{refused}");
            });
        }
    });
}

#[test]
fn a_rank_whose_thread_dies_ends_the_others_collectives() {
    let mut ranks = ranks_of(4);
    let dying = ranks.remove(2);
    std::thread::scope(|scope| {
        for ops in ranks {
            scope.spawn(move || {
                let left = OpsError::Device("rank 2 of 4 left the group".into());
                assert_eq!(ops.all_reduce_host(&mut [1.0]), Err(left.clone()));
                let mut logits = fill(&ops, &[0.0; 3], 1);
                assert_eq!(ops.all_reduce(&mut logits), Err(left.clone()));
                let failed = ops.cross_entropy(&mut logits, 0, 3, &[1], &[1.0], &mut Vec::new());
                assert_eq!(failed, Err(left));
            });
        }
        let died = scope.spawn(move || {
            let _held = dying;
            std::panic::resume_unwind(Box::new("made up"));
        });
        died.join().unwrap_err();
    });
}

/// The bits of what the larger operations give.
fn bits(ops: &Cpu) -> Vec<Vec<f32>> {
    let dice = &mut Dice::plain(3);
    let (rows, heads) = (150, Heads { query: 4, kv: 2, dim: 24 });
    let (x, d_out) = (fill(ops, &dice.many(rows * 90), rows), fill(ops, &dice.many(rows * 70), rows));
    let mut weight = ops.param([70, 90], &dice.many(70 * 90)).unwrap();
    let mut bias = ops.param([1, 70], &dice.many(70)).unwrap();
    let (mut out, mut dx) = (spoiled(ops, rows, 70), spoiled(ops, rows, 90));
    ops.linear_forward(&x, &weight, Some(&bias), &mut out).unwrap();
    ops.linear_backward(&x, &mut weight, Some(&mut bias), &d_out, Some(&mut dx)).unwrap();
    let mut scale = ops.param([1, 90], &dice.many(90)).unwrap();
    let given = dx.clone();
    ops.norm_backward(&x, &mut scale, 1e-5, &given, &mut dx).unwrap();
    let qkv = fill(ops, &dice.many(rows * heads.fused()), rows);
    let mut norms = [0; 2].map(|_| ops.param([1, heads.dim], &dice.many(heads.dim)).unwrap());
    let (mut mixed, mut lse) = (spoiled(ops, rows, heads.width()), spoiled(ops, rows, heads.query));
    let (d_mixed, mut d_qkv) = (fill(ops, &dice.many(rows * heads.width()), rows), spoiled(ops, rows, heads.fused()));
    let starts = [0, 70, 80, 150];
    ops.attend_forward(&qkv, heads, &starts, &mut mixed, &mut lse).unwrap();
    ops.attend_backward(&qkv, heads, &starts, &mixed, &lse, &d_mixed, &mut d_qkv).unwrap();
    let rope = Rope { frequencies: vec![0.3; heads.dim / 2], interleaved: false, scale: 1.0 };
    let positions: Vec<u32> = (0..rows as u32).collect();
    let [query, key] = &mut norms;
    ops.rotate_backward(&qkv, heads, Some((query, key, 1e-6)), &rope, &positions, &mut d_qkv).unwrap();
    let squares = ops.gradient_squares(&mut [&weight, &scale].into_iter()).unwrap();
    let mut all: Vec<Vec<f32>> = [&out, &dx, &mixed, &lse, &d_qkv].map(|rows| read(ops, rows)).into();
    all.extend([&weight, &bias, &scale, &norms[0], &norms[1]].map(|param| part(ops, param, Part::Gradient)));
    all.push(vec![squares as f32, (squares - f64::from(squares as f32)) as f32]);
    all
}

#[test]
fn bits_depend_neither_on_the_run_nor_on_the_number_of_threads_nor_on_the_neighbours_in_a_pack() {
    for level in Level::available() {
        let ops = Cpu::at(level);
        let several = bits(&ops);
        assert_eq!(bits(&ops), several);
        // Whoever asks from within a task computes alone.
        together(2, &|_| assert_eq!(bits(&ops), several));
        let (dice, heads) = (&mut Dice::plain(9), Heads { query: 2, kv: 1, dim: 16 });
        let rows = dice.many(100 * heads.fused());
        let attended = |values: &[f32], starts: &[u32]| {
            let qkv = fill(&ops, values, values.len() / heads.fused());
            let (mut out, mut lse) = (spoiled(&ops, 100, heads.width()), spoiled(&ops, 100, heads.query));
            ops.attend_forward(&qkv, heads, starts, &mut out, &mut lse).unwrap();
            let (d_out, mut d_qkv) = (out.clone(), spoiled(&ops, 100, heads.fused()));
            ops.attend_backward(&qkv, heads, starts, &out, &lse, &d_out, &mut d_qkv).unwrap();
            [read(&ops, &out), read(&ops, &d_qkv)]
        };
        let [packed, d_packed] = attended(&rows, &[0, 30, 100]);
        let [alone, d_alone] = attended(&rows[30 * heads.fused()..], &[0, 70]);
        assert_eq!((&packed[30 * heads.width()..], &d_packed[30 * heads.fused()..]), (&alone[..], &d_alone[..]));
    }
}

#[test]
fn what_does_not_fit_is_refused_with_both() {
    let ops = Cpu::new();
    let x = fill(&ops, &[0.5; 12], 3);
    let mut weight = ops.param([2, 5], &[0.0; 10]).unwrap();
    let refused = ops.linear_forward(&x, &weight, None, &mut ops.rows(3, 2).unwrap()).unwrap_err().to_string();
    assert!(refused.contains("linear_forward: expected inputs 5, got 4"), "{refused}");
    assert!(ops.param([usize::MAX, 2], &[]).unwrap_err().to_string().contains("a learned tensor would take"));
    assert!(ops.param([2, 2], &[0.0; 3]).is_err() && ops.write_param(&mut weight, Part::Value, &[0.0; 9]).is_err());
    let heads = Heads { query: 1, kv: 0, dim: 4 };
    let refused = ops.attend_forward(&x, heads, &[0, 3], &mut ops.rows(3, 4).unwrap(), &mut ops.rows(3, 1).unwrap());
    assert!(refused.unwrap_err().to_string().contains("multiple of key heads"));
    let rope = Rope { frequencies: vec![1.0], interleaved: false, scale: 1.0 };
    let heads = Heads { query: 2, kv: 0, dim: 2 };
    assert!(ops.rotate_forward(&mut x.clone(), heads, None, &rope, &[0, 1, 2]).is_err());
    assert!(
        ops.swiglu_backward(&x, &x, &mut x.clone()).is_err()
            && ops.norm_forward(&x, &weight, 1.0, &mut x.clone()).is_err()
    );
    assert!(ops.cross_entropy(&mut x.clone(), 0, 4, &[0, 1], &[1.0; 3], &mut Vec::new()).is_err());
}
