//! The statistics against figures of scipy, statsmodels, scikit-learn and NumPy. `goldens/make.py`
//! writes them; it shares no code with this crate.

use legwork_report::number::Finite;
use legwork_report::statistics::{
    agreement, bootstrap, calibration, citations, paired, percentile, proportion, rounds,
};
use serde_json::Value;

fn rows(name: &str) -> Vec<Value> {
    let goldens: Value = serde_json::from_str(include_str!("../goldens/statistics.json")).unwrap();
    let rows = goldens[name].as_array().unwrap().clone();
    assert!(!rows.is_empty());
    rows
}

fn integer(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

#[track_caller]
fn close(got: f64, expected: &Value, relative: f64, row: &Value) {
    let expected = expected.as_f64().unwrap();
    assert!((got - expected).abs() <= relative * expected.abs() + 1e-14, "expected {expected}, got {got} for {row}");
}

#[test]
fn wilson_agrees_with_statsmodels() {
    for row in rows("wilson") {
        let interval = proportion::wilson(integer(&row[0]), integer(&row[1])).unwrap();
        close(interval.low.get(), &row[2], 1e-12, &row);
        close(interval.high.get(), &row[3], 1e-12, &row);
    }
}

#[test]
fn mcnemar_agrees_with_exact_integers_and_with_scipy_at_a_million() {
    for row in rows("mcnemar") {
        let test = paired::mcnemar(integer(&row[0]), integer(&row[1]));
        close(test.p.get(), &row[2], 1e-8, &row);
        close(test.log10_p.get(), &row[3], 1e-8, &row);
    }
}

#[test]
fn the_detectable_effect_agrees_with_a_root_finder() {
    for row in rows("detectable") {
        let effect = paired::detectable_effect(integer(&row[0]), row[1].as_f64().unwrap()).unwrap();
        close(effect.difference.get(), &row[2], 1e-9, &row);
    }
}

#[test]
fn the_bootstrap_agrees_with_its_own_limit_distribution() {
    for row in rows("bootstrap") {
        let of = |index: usize, sum| (0..integer(&row[index])).map(move |_| bootstrap::Cluster { sum, size: 1 });
        let clusters: Vec<_> = of(0, 1).chain(of(1, -1)).chain(of(2, 0)).collect();
        let interval = bootstrap::bootstrap_mean(&clusters, 42, bootstrap::RESAMPLES).unwrap().interval;
        // The distribution is a lattice with steps of 1/n: ten thousand draws may miss by one step.
        let step = 1.0 / clusters.len() as f64 + 1e-9;
        assert!((interval.low.get() - row[3].as_f64().unwrap()).abs() <= step, "{row}: {interval:?}");
        assert!((interval.high.get() - row[4].as_f64().unwrap()).abs() <= step, "{row}: {interval:?}");
    }
}

#[test]
fn pass_at_k_agrees_with_exact_fractions() {
    for row in rows("pass_at_k") {
        let [n, c, k] = [0, 1, 2].map(|index| u32::try_from(integer(&row[index])).unwrap());
        close(rounds::pass_at_k(n, c, k).unwrap().get(), &row[3], 1e-12, &row);
    }
}

#[test]
fn kappa_agrees_with_scikit_learn() {
    for row in rows("kappa") {
        let cell = |a: usize, b: usize| integer(&row[0][a][b]);
        let agreement::Kappa::Defined { kappa, .. } =
            agreement::kappa(&[[cell(0, 0), cell(0, 1)], [cell(1, 0), cell(1, 1)]])
        else {
            panic!("defined: {row}")
        };
        close(kappa.get(), &row[1], 1e-12, &row);
    }
}

#[test]
fn percentiles_agree_with_numpy() {
    for row in rows("percentiles") {
        let values: Vec<u64> = row[0].as_array().unwrap().iter().map(integer).collect();
        let q = row[1].as_f64().unwrap();
        assert_eq!(percentile::nearest_rank(&values, q), row[2].as_u64(), "q = {q} of {} values", values.len());
        let floats: Vec<f64> = values.iter().map(|value| *value as f64).collect();
        close(percentile::interpolated(&floats, q).unwrap().get(), &row[3], 1e-12, &row[1]);
    }
}

#[test]
fn both_calibration_figures_agree_with_numpy() {
    for row in rows("calibration") {
        let confidences = row["confidences"].as_array().unwrap().iter().map(Value::as_f64);
        let correct = row["correct"].as_array().unwrap().iter().map(|correct| correct.as_bool().unwrap());
        let answers: Vec<_> = confidences
            .zip(correct)
            .map(|(confidence, correct)| calibration::Confident { confidence, correct })
            .collect();
        let got = calibration::calibration(&answers, calibration::BINS);
        close(got.published.get(), &row["published"], 1e-9, &row["published"]);
        match got.corrected.map(Finite::get) {
            Some(corrected) => close(corrected, &row["corrected"], 1e-9, &row["corrected"]),
            None => assert!(row["corrected"].is_null()),
        }
    }
}

#[test]
fn citations_agree_with_regular_expressions() {
    for row in rows("citations") {
        let text = row[0].as_str().unwrap();
        let cited: Vec<String> = citations::cited(text).iter().map(ToString::to_string).collect();
        let expected: Vec<&str> = row[1].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
        assert_eq!(cited, expected, "{text:?}");
    }
}
