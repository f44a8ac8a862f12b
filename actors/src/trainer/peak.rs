//! What this machine's processor reaches in small products that stay in its nearest cache, all threads together, or a card in
//! a large one: what a share of the peak is counted from where nobody states one.
//! It refuses to know models.

use super::places::RankPlaces;
use crate::clock::Clock;
use crate::local::Place;
use legwork_kernels::Cpu;
use legwork_kernels::cpu::product::{Strided, StridedMut, product};
use legwork_kernels::cpu::team::{threads, together};

/// Rounds are measured for at least so long.
const LASTS_MS: u64 = 200;
/// Rounds at most, should the clock stand still.
const ROUNDS_MAX: u32 = 4_096;
/// Products of one task in a round.
const PRODUCTS: usize = 500;
/// Rows, depth and lanes of a product.
const SHAPE: [usize; 3] = [8, 96, 32];

/// Floating-point operations a second that all ranks reach together; none where it cannot be measured. Cards of one run are
/// taken to be alike.
pub fn measured_peak(places: &RankPlaces, clock: Clock) -> Option<f64> {
    match places.each() {
        [Place::Card(number), ..] => Some(of_card(*number, places)? * places.ranks() as f64),
        _ => of_processor(clock),
    }
}

/// Of a product of matrices of 8,192 rows and columns in bf16.
#[cfg(feature = "cuda")]
fn of_card(number: usize, places: &RankPlaces) -> Option<f64> {
    let measured = legwork_kernels::Cuda::open(number, places.kernels()).and_then(|card| card.driver().ceilings());
    match measured {
        Ok(ceilings) => Some(ceilings.product_flops_s),
        Err(error) => {
            tracing::warn!("the peak of card {number} could not be measured: {error}");
            None
        }
    }
}

#[cfg(not(feature = "cuda"))]
fn of_card(_number: usize, _places: &RankPlaces) -> Option<f64> {
    None
}

/// Of small products, measured in a fifth of a second.
fn of_processor(clock: Clock) -> Option<f64> {
    let level = Cpu::new().level();
    let [rows, depth, lanes] = SHAPE;
    let (left, right) = (vec![0.5_f32; rows * depth], vec![0.25_f32; depth * lanes]);
    let tasks = 4 * threads();
    let round = || {
        together(tasks, &|_| {
            let mut sums = vec![0.0_f32; rows * lanes];
            for _ in 0..PRODUCTS {
                let (a, b) = (Strided { values: &left, stride: depth }, Strided { values: &right, stride: lanes });
                product(level, SHAPE, a, b, StridedMut { values: &mut sums, stride: lanes });
            }
            std::hint::black_box(&sums);
        });
    };
    // The first wakes the threads.
    round();
    let began_ms = clock.elapsed_ms();
    let mut rounds = 0;
    while rounds < ROUNDS_MAX && clock.elapsed_ms() - began_ms < LASTS_MS {
        round();
        rounds += 1;
    }
    let took_ms = clock.elapsed_ms() - began_ms;
    let operations = 2.0 * (rows * depth * lanes * PRODUCTS * tasks) as f64 * f64::from(rounds);
    (took_ms > 0).then(|| operations * 1_000.0 / took_ms as f64)
}
