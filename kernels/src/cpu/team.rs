//! Threads that compute one operation together. A step of a decoder is some two hundred operations of a tenth of a
//! millisecond each, so a thread that has nothing to do spins a little before it sleeps; a pool that sleeps at once spends more
//! time on waking than on computing.
//!
//! It refuses to know what is computed. One operation runs at a time: who finds the team busy computes alone.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};
use std::thread::Thread;

/// Looks at the state before a thread sleeps: some 50 to 100 microseconds.
const SPINS: u32 = 20_000;
/// Looks at the count of those who are still at work before the processor is offered to others.
const PATIENCE: u32 = 20_000;
/// Threads at most.
const THREADS_MAX: usize = 512;

/// Of the state: nobody may enter any more. Below it the number of those who entered, above it the operation's number.
const CLOSED: u64 = 1 << 16;
const ENTERED: u64 = CLOSED - 1;
const NEXT: u64 = CLOSED << 1;

type Task<'a> = dyn Fn(usize) + Sync + 'a;

/// Threads beside the one that asks.
struct Team {
    shared: Arc<Shared>,
    members: Vec<Thread>,
    /// Held by whoever asks.
    turn: Mutex<()>,
}

struct Shared {
    state: AtomicU64,
    /// Tasks of the operation that have been taken.
    taken: AtomicUsize,
    /// Members who have entered and left.
    left: AtomicUsize,
    sleepers: AtomicUsize,
    operation: UnsafeCell<Operation>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

struct Operation {
    task: *const Task<'static>,
    tasks: usize,
}

// SAFETY: the operation is written by the one who holds the turn while nobody has entered, and read by those who have.
#[allow(unsafe_code)]
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer in it is followed only by those who have entered.
#[allow(unsafe_code)]
unsafe impl Send for Shared {}

/// Threads that compute together, the asking one included.
pub fn threads() -> usize {
    team().members.len() + 1
}

/// Runs `task` for each number below `tasks`, on several threads, and returns when all are done.
///
/// # Panics
/// With the panic of a task, once all others have ended.
pub fn together(tasks: usize, task: &Task<'_>) {
    let team = team();
    if tasks <= 1 || team.members.is_empty() {
        return (0..tasks).for_each(task);
    }
    let turn = match team.turn.try_lock() {
        Ok(turn) => turn,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return (0..tasks).for_each(task),
    };
    team.run(tasks, task);
    drop(turn);
}

fn team() -> &'static Team {
    static TEAM: OnceLock<Team> = OnceLock::new();
    TEAM.get_or_init(|| Team::new(std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)))
}

impl Team {
    fn new(threads: usize) -> Self {
        let idle: &'static Task<'static> = &|_| {};
        let shared = Arc::new(Shared {
            state: AtomicU64::new(CLOSED),
            taken: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            operation: UnsafeCell::new(Operation { task: idle, tasks: 0 }),
            panic: Mutex::new(None),
        });
        let member = |number: usize| {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name(format!("kernels-{number}"));
            // A machine that gives no more threads computes with those it has.
            builder.spawn(move || shared.serve()).ok().map(|handle| handle.thread().clone())
        };
        let members = (1..threads).map_while(member).collect();
        Self { shared, members, turn: Mutex::new(()) }
    }

    #[allow(unsafe_code)]
    fn run(&self, tasks: usize, task: &Task<'_>) {
        let shared = &*self.shared;
        // SAFETY: the pointer is followed only by members who entered this operation, and this function returns, and
        // unwinds, only after all of these have left: the closing below is not skipped, since tasks' panics are caught.
        let task: &'static Task<'static> = unsafe { std::mem::transmute::<&Task<'_>, &'static Task<'static>>(task) };
        // SAFETY: the turn is held and the last operation is closed and left by all, so nobody reads it.
        unsafe { *shared.operation.get() = Operation { task, tasks } };
        shared.taken.store(0, Ordering::Relaxed);
        shared.left.store(0, Ordering::Relaxed);
        let number = (shared.state.load(Ordering::Relaxed) & !(NEXT - 1)).wrapping_add(NEXT);
        shared.state.store(number, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if shared.sleepers.load(Ordering::SeqCst) > 0 {
            self.members.iter().for_each(Thread::unpark);
        }
        shared.work();
        let entered = (shared.state.fetch_or(CLOSED, Ordering::AcqRel) & ENTERED) as usize;
        let mut looks = 0_u32;
        while shared.left.load(Ordering::Acquire) < entered {
            looks += 1;
            if looks.is_multiple_of(PATIENCE) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        let panic = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

impl Shared {
    /// A member's life, which ends with the process.
    fn serve(&self) {
        let mut seen = 0;
        loop {
            let entered = (0..SPINS).any(|_| {
                std::hint::spin_loop();
                self.enter(&mut seen)
            });
            if !entered {
                self.sleepers.fetch_add(1, Ordering::SeqCst);
                fence(Ordering::SeqCst);
                let entered = self.enter(&mut seen);
                if !entered {
                    std::thread::park();
                }
                self.sleepers.fetch_sub(1, Ordering::SeqCst);
                if !entered {
                    continue;
                }
            }
            self.work();
            self.left.fetch_add(1, Ordering::Release);
        }
    }

    /// Enters an operation that is open and was not seen before.
    fn enter(&self, seen: &mut u64) -> bool {
        let state = self.state.load(Ordering::SeqCst);
        let number = state & !(NEXT - 1);
        if number == *seen || state & CLOSED != 0 {
            return false;
        }
        let entered = self.state.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if entered {
            *seen = number;
        }
        entered
    }

    #[allow(unsafe_code)]
    fn work(&self) {
        // SAFETY: whoever works holds the turn or has entered, so nobody writes the operation.
        let Operation { task, tasks } = unsafe { &*self.operation.get() };
        loop {
            let number = self.taken.fetch_add(1, Ordering::Relaxed);
            if number >= *tasks {
                return;
            }
            // SAFETY: the task lives until all who entered have left.
            let run = || unsafe { (**task)(number) };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
                // Nobody needs the rest.
                self.taken.store(*tasks, Ordering::Relaxed);
            }
        }
    }
}

/// A slice of which each task writes a part of its own.
pub(super) struct Parts<T> {
    start: *mut T,
    len: usize,
}

// SAFETY: whoever takes parts takes them so that no two overlap, which `part` asks of its caller.
#[allow(unsafe_code)]
unsafe impl<T: Send> Sync for Parts<T> {}

impl<T> Parts<T> {
    pub(super) fn new(slice: &mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len() }
    }

    /// A part.
    ///
    /// # Safety
    /// No other part that is in use overlaps it, and the slice is borrowed for as long as the part is used.
    #[allow(unsafe_code)]
    #[allow(clippy::mut_from_ref, reason = "the caller keeps parts apart")]
    pub(super) unsafe fn part(&self, start: usize, len: usize) -> &mut [T] {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.len), "a part of the slice");
        // SAFETY: it is inside, by the line above; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}

/// Runs over rows of `width` values; each thread takes several at a time.
pub(super) fn over_rows(values: &mut [f32], width: usize, run: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let rows = values.len() / width.max(1);
    let piece = rows.div_ceil(threads() * 4).max(1);
    let parts = Parts::new(values);
    together(rows.div_ceil(piece), &|task| {
        for row in task * piece..rows.min((task + 1) * piece) {
            // SAFETY: each row is taken once, by one task.
            #[allow(unsafe_code)]
            run(row, unsafe { parts.part(row * width, width) });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once_whatever_the_number() {
        for tasks in [0, 1, 2, 3, 7, 64, 1_000] {
            let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
            for _ in 0..20 {
                together(tasks, &|task| {
                    counts[task].fetch_add(1, Ordering::Relaxed);
                });
            }
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 20));
        }
    }

    #[test]
    fn a_panic_of_a_task_is_the_askers_and_the_team_works_on() {
        let sum = AtomicUsize::new(0);
        let asked = catch_unwind(AssertUnwindSafe(|| {
            together(100, &|task| assert!(task != 57, "made up"));
        }));
        assert!(asked.is_err());
        together(100, &|task| {
            sum.fetch_add(task, Ordering::Relaxed);
        });
        assert_eq!(sum.load(Ordering::Relaxed), 4_950);
    }

    #[test]
    fn who_asks_from_within_or_at_the_same_time_computes_alone() {
        let sum = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        together(8, &|_| {
                            together(8, &|_| {
                                sum.fetch_add(1, Ordering::Relaxed);
                            })
                        });
                    }
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 4 * 50 * 64);
    }
}
