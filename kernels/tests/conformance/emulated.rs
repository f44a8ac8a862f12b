//! A card made of the processor: the kernels' own sources, compiled by the system's C++ compiler with `emulator.h` in the
//! place of `device.cu`, and run thread by thread. So the sources, their launches and their arguments are held to the same
//! suite as a card, where there is none; products of large matrices, which are a library's, are plain loops.
//!
//! It refuses to know what a kernel is for. Without a C++ compiler, tests over it say that they skip.

#![allow(unsafe_code, reason = "kernels are not checked")]
#![allow(clippy::unwrap_used, reason = "a test")]

use half::bf16;
use legwork_kernels::cpu::group::Reduce;
use legwork_kernels::cuda::driver::{Arg, Combine, Driver, GradientOf, GradientProduct, Owned, Product, Shape};
use legwork_kernels::cuda::source::{HOPPER, PRELUDE, Unit};
use legwork_kernels::{Member, OpsError};
use libloading::{Library, Symbol};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

/// One launch at a time: an emulated card's state is that of its library.
static RUNNING: Mutex<()> = Mutex::new(());
/// What stands behind each piece of memory, and must stand there when it is dropped.
const FENCE: u8 = 0xa5;

/// To a double and back.
type Ways<T> = (fn(T) -> f64, fn(f64) -> T);

/// Few, so that blocks of a small batch go on to further work.
const MULTIPROCESSORS: u32 = 3;

/// The emulated card, which may write down what it is given to start.
#[derive(Default)]
pub(crate) struct Emulated {
    recording: RefCell<Option<Vec<Started>>>,
    member: Option<Member>,
    replica: Option<Member>,
    waits: Cell<usize>,
    launches: Cell<usize>,
    is_hopper: bool,
}

/// Something that was started.
#[derive(Clone)]
pub(crate) enum Started {
    Launch(Kernel, Shape, Vec<Arg>),
    Product(Product),
}

impl Started {
    /// What a launch is beside where its arguments are.
    #[allow(dead_code, reason = "one of the suites asks for it")]
    pub(crate) fn without_addresses(&self) -> String {
        match self {
            Self::Launch(kernel, shape, args) => {
                let args: Vec<&Arg> = args.iter().filter(|arg| !matches!(arg, Arg::Address(_))).collect();
                format!("{} {shape:?} {args:?}", kernel.name)
            }
            Self::Product(product) => format!("{} x {} x {}", product.rows, product.inputs, product.outputs),
        }
    }
}

impl Emulated {
    /// The card, where there is a compiler.
    pub(crate) fn find() -> Option<Self> {
        let found = Command::new("c++").arg("--version").output().is_ok_and(|output| output.status.success());
        (found && cfg!(target_os = "linux")).then(Self::default)
    }
}

impl Emulated {
    /// The same with the instructions that only Hopper has.
    #[allow(dead_code, reason = "only some of the tests over it ask for them")]
    pub(crate) fn with_hopper(self) -> Self {
        Self { is_hopper: true, ..self }
    }

    /// The same as a rank of a group of threads.
    #[allow(dead_code, reason = "only some of the tests over it have groups")]
    pub(crate) fn with_member(self, member: Member) -> Self {
        Self { member: Some(member), ..self }
    }

    /// The same as one of several replicas, which are threads.
    #[allow(dead_code, reason = "only some of the tests over it have replicas")]
    pub(crate) fn with_replica(self, member: Member) -> Self {
        Self { replica: Some(member), ..self }
    }

    /// How often somebody waited for it, and how many kernels it was given, since this was last asked.
    #[allow(dead_code, reason = "only some of the tests over it count")]
    pub(crate) fn counted(&self) -> (usize, usize) {
        (self.waits.take(), self.launches.take())
    }

    /// Combines values of memory with those of the other ranks, by way of doubles.
    ///
    /// # Safety
    /// The address is that of so many values.
    unsafe fn combine<T: Copy>(
        &self,
        reduce: Reduce,
        (address, count): (u64, usize),
        ways: Ways<T>,
    ) -> Result<(), OpsError> {
        // SAFETY: the caller's duty.
        unsafe { Self::combine_of(self.member.as_ref(), reduce, (address, count), ways) }
    }

    /// The same among the members of a group.
    ///
    /// # Safety
    /// As [`Emulated::combine`].
    unsafe fn combine_of<T: Copy>(
        member: Option<&Member>,
        reduce: Reduce,
        (address, count): (u64, usize),
        (widen, narrow): Ways<T>,
    ) -> Result<(), OpsError> {
        let Some(member) = member else { return Ok(()) };
        // SAFETY: the caller's duty.
        let values = unsafe { std::slice::from_raw_parts_mut(address as *mut T, count) };
        let mut wide: Vec<f64> = values.iter().map(|value| widen(*value)).collect();
        member.meet("combine", reduce, &mut wide)?;
        values.iter_mut().zip(wide).for_each(|(value, sum)| *value = narrow(sum));
        Ok(())
    }

    fn refuse_in_recording(&self, what: &str) -> Result<(), OpsError> {
        match *self.recording.borrow() {
            None => Ok(()),
            Some(_) => Err(OpsError::Device(format!("{what} while a step is recorded"))),
        }
    }
}

/// 256 bytes at an address that is a multiple of as many, as a card's memory is.
#[derive(Clone)]
#[repr(C, align(256))]
struct Line([u8; 256]);

/// A piece of memory with a fence behind it.
pub(crate) struct Piece {
    lines: Vec<Line>,
    bytes: usize,
}

impl Piece {
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: lines are bytes one behind the other, all of them set.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * 256) }
    }

    fn as_bytes_mut(&mut self) -> &mut [u8] {
        let count = self.lines.len() * 256;
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), count) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let broken = self.as_bytes()[self.bytes..].iter().any(|byte| *byte != FENCE);
        if broken && !std::thread::panicking() {
            panic!("a kernel wrote behind a piece of {} bytes", self.bytes);
        }
    }
}

/// A kernel within its library.
#[derive(Clone)]
pub(crate) struct Kernel {
    library: Arc<Library>,
    name: &'static str,
    shared_bytes: u32,
}

fn compiled(unit: &Unit) -> PathBuf {
    let entries: String = unit.kernels.iter().map(|name| format!("EMULATE({name})\n")).collect();
    let text = unit.text.replace(HOPPER, include_str!("emulator_hopper.h"));
    let source = [include_str!("emulator.h"), PRELUDE, &text, &entries].join("\n");
    let mut hasher = DefaultHasher::new();
    (&source, unit.options()).hash(&mut hasher);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulated");
    let stem = format!("{}-{:016x}", unit.file, hasher.finish());
    let library = folder.join(format!("{stem}.so"));
    if library.exists() {
        return library;
    }
    std::fs::create_dir_all(&folder).unwrap();
    let own = format!("{stem}-{}-{:?}", std::process::id(), std::thread::current().id());
    let (text, beside) = (folder.join(format!("{own}.cpp")), folder.join(format!("{own}.new")));
    std::fs::write(&text, source).unwrap();
    // Products and sums are never fused, as on a card where a kernel asks for that; threads are left by jumps, which fortified
    // libraries take for a fault.
    let output = Command::new("c++")
        .args([
            "-std=c++17",
            "-O2",
            "-w",
            "-fPIC",
            "-shared",
            "-ffp-contract=off",
            "-fno-strict-aliasing",
            "-U_FORTIFY_SOURCE",
        ])
        .args(unit.options())
        .arg("-o")
        .args([&beside, &text])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}: {}", unit.file, String::from_utf8_lossy(&output.stderr));
    std::fs::remove_file(&text).unwrap();
    std::fs::rename(&beside, &library).unwrap();
    library
}

impl Driver for Emulated {
    type Memory = Piece;
    type Kernel = Kernel;
    type Graph = Vec<Started>;

    fn multiprocessors(&self) -> u32 {
        MULTIPROCESSORS
    }

    fn is_hopper(&self) -> bool {
        self.is_hopper
    }

    fn boxes(&self, address: u64, rows: u64, width: usize) -> Result<Option<[u8; 128]>, OpsError> {
        let mut bytes = [0; 128];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip([address, rows, width as u64]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Ok(self.is_hopper.then_some(bytes))
    }

    fn reserve(&self, what: &'static str, bytes: usize) -> Result<Piece, OpsError> {
        self.refuse_in_recording(what)?;
        let count = bytes / 256 + 1;
        let mut lines = Vec::new();
        lines.try_reserve_exact(count).map_err(|_| OpsError::Memory { what, bytes: bytes as u128 })?;
        lines.resize(count, Line([FENCE; 256]));
        let mut piece = Piece { lines, bytes };
        piece.as_bytes_mut()[..bytes].fill(0);
        Ok(piece)
    }

    fn address(&self, memory: &Piece) -> u64 {
        memory.lines.as_ptr() as u64
    }

    fn upload(&self, bytes: &[u8], memory: &mut Piece, at: usize) -> Result<(), OpsError> {
        self.refuse_in_recording("a copy")?;
        let end = memory.bytes;
        memory.as_bytes_mut()[..end][at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn download(&self, memory: &Piece, at: usize, bytes: &mut [u8]) -> Result<(), OpsError> {
        self.refuse_in_recording("a copy")?;
        self.waits.set(self.waits.get() + 1);
        bytes.copy_from_slice(&memory.as_bytes()[..memory.bytes][at..at + bytes.len()]);
        Ok(())
    }

    fn kernel(&self, unit: &Unit, name: &'static str, shared_bytes: u32) -> Result<Kernel, OpsError> {
        // SAFETY: a library of our own sources, which has nothing to initialise but vectors.
        let library = unsafe { Library::new(compiled(unit)) }.unwrap();
        Ok(Kernel { library: Arc::new(library), name, shared_bytes })
    }

    unsafe fn launch(&self, kernel: &Kernel, shape: Shape, args: &[Arg]) -> Result<(), OpsError> {
        if let Some(started) = &mut *self.recording.borrow_mut() {
            started.push(Started::Launch(kernel.clone(), shape, args.to_vec()));
            return Ok(());
        }
        self.launches.set(self.launches.get() + 1);
        type Entry = unsafe extern "C" fn(*const u32, u32, *const u32, *mut *mut c_void) -> i32;
        assert!(
            shape.shared_bytes <= kernel.shared_bytes.max(48 << 10),
            "{}: shared memory not asked for",
            kernel.name
        );
        let (mut bits, sizes): (Vec<u64>, Vec<u32>) = args.iter().map(|arg| arg.bits()).unzip();
        let mut places: Vec<*mut c_void> = bits.iter_mut().map(|bits| (&raw mut *bits).cast()).collect();
        let shapes = [shape.grid[0], shape.grid[1], shape.threads, shape.shared_bytes];
        let _one = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `EMULATE` gives entries this type; it checks number and sizes of the arguments, the rest is the caller's duty.
        let failed = unsafe {
            let entry: Symbol<'_, Entry> = kernel.library.get(format!("emulate_{}", kernel.name)).unwrap();
            entry(shapes.as_ptr(), args.len() as u32, sizes.as_ptr(), places.as_mut_ptr())
        };
        assert_eq!(failed, 0, "{}: 1 is wrong arguments, 2 a wrong shape, 3 threads that wait for ever", kernel.name);
        Ok(())
    }

    fn record(&self, run: &mut dyn FnMut() -> Result<(), OpsError>) -> Result<Option<Vec<Started>>, OpsError> {
        *self.recording.borrow_mut() = Some(Vec::new());
        let ran = run();
        let started = self.recording.borrow_mut().take();
        ran.map(|()| started)
    }

    fn play(&self, graph: &Vec<Started>) -> Result<(), OpsError> {
        for started in graph {
            // SAFETY: as it was when it was recorded; whoever plays it has kept the memory.
            unsafe {
                match started {
                    Started::Launch(kernel, shape, args) => self.launch(kernel, *shape, args)?,
                    Started::Product(product) => self.product(product)?,
                }
            }
        }
        Ok(())
    }

    unsafe fn product(&self, p: &Product) -> Result<(), OpsError> {
        if let Some(started) = &mut *self.recording.borrow_mut() {
            started.push(Started::Product(*p));
            return Ok(());
        }
        let value = |address: u64, at: usize| {
            // SAFETY: the caller's duty.
            unsafe { *(address as *const bf16).add(at) }.to_f32()
        };
        for row in 0..p.rows {
            for output in 0..p.outputs {
                let terms =
                    (0..p.inputs).map(|i| value(p.x.0, row * p.x.1 + i) * value(p.weight.0, output * p.weight.1 + i));
                let sum = terms.sum::<f32>() + p.bias.map_or(0.0, |bias| value(bias, output));
                // SAFETY: the caller's duty.
                unsafe { *(p.out.0 as *mut bf16).add(row * p.out.1 + output) = bf16::from_f32(sum) };
            }
        }
        Ok(())
    }

    fn ranks(&self) -> usize {
        self.member.as_ref().map_or(1, Member::ranks)
    }

    fn rank(&self) -> usize {
        self.member.as_ref().map_or(0, Member::rank)
    }

    unsafe fn sum_over_ranks(&self, address: u64, count: usize) -> Result<(), OpsError> {
        let ways: Ways<bf16> = (bf16::to_f64, bf16::from_f64);
        // SAFETY: the caller's duty.
        unsafe { self.combine(Reduce::Sum, (address, count), ways) }
    }

    unsafe fn combine_over_ranks(&self, how: Combine, address: u64, count: usize) -> Result<(), OpsError> {
        let singles: Ways<f32> = (f64::from, |value| value as f32);
        // SAFETY: the caller's duty.
        unsafe {
            match how {
                Combine::SumSingle => self.combine(Reduce::Sum, (address, count), singles),
                Combine::GreatestSingle => self.combine(Reduce::Max, (address, count), singles),
                Combine::SumDouble => {
                    self.combine::<f64>(Reduce::Sum, (address, count), (|value| value, |value| value))
                }
            }
        }
    }

    fn replicas(&self) -> usize {
        self.replica.as_ref().map_or(1, Member::ranks)
    }

    fn replica(&self) -> usize {
        self.replica.as_ref().map_or(0, Member::rank)
    }

    unsafe fn sum_over_replicas(&self, address: u64, count: usize) -> Result<(), OpsError> {
        let ways: Ways<f64> = (|value| value, |value| value);
        // SAFETY: the caller's duty.
        unsafe { Self::combine_of(self.replica.as_ref(), Reduce::Sum, (address, count), ways) }
    }

    /// As NCCL: what others than the owner have stays as it was.
    unsafe fn reduce_to_owners(&self, pieces: &[Owned]) -> Result<(), OpsError> {
        for piece in pieces {
            // SAFETY: the caller's duty.
            let values = unsafe { std::slice::from_raw_parts_mut(piece.address as *mut f32, piece.count) };
            let mut sums = values.to_vec();
            let at = sums.as_mut_ptr() as u64;
            // SAFETY: a copy of as many values.
            unsafe {
                let ways: Ways<f32> = (f64::from, |value| value as f32);
                Self::combine_of(self.replica.as_ref(), Reduce::Sum, (at, piece.count), ways)?;
            }
            if piece.owner == self.replica() {
                values.copy_from_slice(&sums);
            }
        }
        Ok(())
    }

    unsafe fn spread_from_owners(&self, pieces: &[Owned]) -> Result<(), OpsError> {
        let ways: Ways<u8> = (f64::from, |value| value as u8);
        // SAFETY: the caller's duty.
        pieces.iter().try_for_each(|piece| unsafe {
            Self::combine_of(self.replica.as_ref(), Reduce::Of(piece.owner), (piece.address, piece.count), ways)
        })
    }

    unsafe fn pass_to_first(&self, piece: &Owned) -> Result<(), OpsError> {
        let mut scratch = vec![0_u8; piece.count];
        let takes_part = [0, piece.owner].contains(&self.replica());
        let at = if takes_part { piece.address } else { scratch.as_mut_ptr() as u64 };
        let ways: Ways<u8> = (f64::from, |value| value as u8);
        // SAFETY: the caller's duty, or room of as many bytes.
        unsafe { Self::combine_of(self.replica.as_ref(), Reduce::Of(piece.owner), (at, piece.count), ways) }
    }

    unsafe fn gradient_product(&self, p: &GradientProduct) -> Result<(), OpsError> {
        self.refuse_in_recording("a product of a way back")?;
        let value = |(address, stride): (u64, usize), row: usize, column: usize| {
            // SAFETY: the caller's duty.
            unsafe { *(address as *const bf16).add(row * stride + column) }.to_f32()
        };
        let (rows, terms) = match p.of {
            GradientOf::Inputs => (p.rows, p.outputs),
            GradientOf::Weight => (p.outputs, p.rows),
        };
        for row in 0..rows {
            for column in 0..p.inputs {
                let of_d = |term| match p.of {
                    GradientOf::Inputs => value(p.d_out, row, term),
                    GradientOf::Weight => value(p.d_out, term, row),
                };
                let sum: f32 = (0..terms).map(|term| of_d(term) * value(p.other, term, column)).sum();
                let at = row * p.out.1 + column;
                // SAFETY: the caller's duty.
                unsafe {
                    match p.of {
                        GradientOf::Inputs => *(p.out.0 as *mut bf16).add(at) = bf16::from_f32(sum),
                        GradientOf::Weight => *(p.out.0 as *mut f32).add(at) += sum,
                    }
                }
            }
        }
        Ok(())
    }
}
