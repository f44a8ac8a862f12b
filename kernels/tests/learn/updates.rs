//! AdamW beside its formula in double precision and beside torch's, whose numbers `goldens/adamw.py` wrote; sums of squares.
//!
//! It refuses to know what is learned.

use super::checks::{Dice, near, part, wide};
use legwork_kernels::{AdamW, Learn, Part};
use std::collections::BTreeMap;

pub(crate) fn updates<B: Learn>(ops: &B, tolerance: f64, dice: &mut Dice) {
    by_the_formula(ops, tolerance, dice);
    as_torch(ops);
    squares(ops, dice);
}

fn by_the_formula<B: Learn>(ops: &B, tolerance: f64, dice: &mut Dice) {
    let (rows, cols) = (130, 257);
    let start = dice.many(rows * cols);
    let mut param = ops.param([rows, cols], &start).unwrap();
    let mut value = wide(&start);
    let (mut mean, mut square) = (vec![0.0; value.len()], vec![0.0; value.len()]);
    for step in 1..=3_u64 {
        let gradient = dice.many(value.len());
        let adamw = AdamW { rate: 1e-2, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.1, step, scale: 0.3 };
        ops.write_param(&mut param, Part::Gradient, &gradient).unwrap();
        ops.adamw(&mut param, &adamw).unwrap();
        for (((value, gradient), mean), square) in value.iter_mut().zip(&gradient).zip(&mut mean).zip(&mut square) {
            let gradient = f64::from(*gradient) * 0.3;
            *mean = 0.9 * *mean + 0.1 * gradient;
            *square = 0.95 * *square + 0.05 * gradient * gradient;
            let (m, v) = (*mean / (1.0 - 0.9_f64.powi(step as i32)), *square / (1.0 - 0.95_f64.powi(step as i32)));
            *value -= 1e-2 * 0.1 * *value;
            *value -= 1e-2 * m / (v.sqrt() + 1e-8);
        }
        near("adamw, values", &part(ops, &param, Part::Value), &value, tolerance);
        near("adamw, first moment", &part(ops, &param, Part::FirstMoment), &mean, tolerance);
        near("adamw, second moment", &part(ops, &param, Part::SecondMoment), &square, tolerance);
        assert!(part(ops, &param, Part::Gradient).iter().all(|gradient| *gradient == 0.0));
    }
}

/// Units in the last place that a value may be away from torch's, whose vector form fuses where ours rounds.
const UNITS: f64 = 4.0;

fn as_torch<B: Learn>(ops: &B) {
    let told: BTreeMap<&str, Vec<f64>> = include_str!("../../goldens/adamw.txt")
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, numbers)| (name, numbers.split(' ').map(|number| number.parse().unwrap()).collect()))
        .collect();
    let single = |name: &str| -> Vec<f32> { told[name].iter().map(|number| *number as f32).collect() };
    for (name, decay, [beta1, beta2]) in [("decayed", 0.1, [0.9, 0.95]), ("plain", 0.0, [0.4, 0.999])] {
        let mut param = ops.param([7, 11], &single(&format!("{name}_start"))).unwrap();
        for step in 0..5 {
            ops.write_param(&mut param, Part::Gradient, &single(&format!("{name}_gradient_{step}"))).unwrap();
            let (rate, scale) = (told["rates"][step], told["scales"][step]);
            ops.adamw(&mut param, &AdamW { rate, beta1, beta2, eps: 1e-8, decay, step: step as u64 + 1, scale })
                .unwrap();
            close(
                &format!("{name}, step {step}"),
                &part(ops, &param, Part::Value),
                &told[&*format!("{name}_value_{step}")],
            );
        }
        close(name, &part(ops, &param, Part::FirstMoment), &told[&*format!("{name}_first")]);
        close(name, &part(ops, &param, Part::SecondMoment), &told[&*format!("{name}_second")]);
    }
}

fn close(what: &str, got: &[f32], expected: &[f64]) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (got, expected) in got.iter().zip(expected) {
        let unit = f64::from(f32::EPSILON) * expected.abs().max(1e-3);
        assert!((f64::from(*got) - expected).abs() <= UNITS * unit, "{what}: {got:e}, torch has {expected:e}");
    }
}

fn squares<B: Learn>(ops: &B, dice: &mut Dice) {
    let shapes = [[1, 3], [40, 1_001]];
    let mut params: Vec<B::Param> =
        shapes.map(|shape| ops.param(shape, &vec![0.0; shape[0] * shape[1]]).unwrap()).into();
    let mut expected = 0.0;
    for (param, shape) in params.iter_mut().zip(shapes) {
        let gradient = dice.many(shape[0] * shape[1]);
        expected += gradient.iter().map(|g| f64::from(*g) * f64::from(*g)).sum::<f64>();
        ops.write_param(param, Part::Gradient, &gradient).unwrap();
    }
    let got = ops.gradient_squares(&mut params.iter()).unwrap();
    assert!((got - expected).abs() < 1e-9 * expected, "{got} {expected}");
    ops.zero_gradient(&mut params[1]).unwrap();
    assert!(ops.gradient_squares(&mut params[1..].iter()).unwrap() == 0.0);
}
