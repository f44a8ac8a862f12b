//! A card of NVIDIA as a [`Driver`]: one context, one stream, modules by source, and cuBLASLt. Libraries are looked for when it
//! is opened, so that programs are built without them.
//!
//! Events of single pieces of memory are not tracked, since all work goes to one stream, and captured graphs forbid them. It
//! refuses to know what kernels compute.

use super::backend::Card;
use super::boxes::{BOXES_BYTES, described};
use super::compile::{Arch, compile};
use super::driver::{Arg, Combine, Driver, GradientProduct, Owned, Product, Shape};
use super::error::CardError;
use super::gemm::Products;
use super::gemm_gradient::GradientProducts;
use super::group::{Connection, Seat};
use super::pinned::Pool;
use super::source::Unit;
use crate::host::HostBytes;
use crate::ops::OpsError;
use cudarc::driver::sys::{CUfunction_attribute_enum, cudaError_enum};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaGraph, CudaModule, CudaSlice, CudaStream, DevicePtr, DriverError, sys,
};
use cudarc::nvrtc::Ptx;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of shared memory that a kernel gets without asking.
const SHARED_FREE_BYTES: u32 = 48 << 10;

/// How long a step may take at most, where nobody says otherwise.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Arguments of a kernel at most.
const ARGUMENTS_MAX: usize = 24;

/// A card.
pub struct Nvidia {
    /// Whether kernels may begin before those before them have ended: from sm_90 on.
    begins_early: bool,
    multiprocessors: u32,
    wait_max: Cell<Duration>,
    /// Given up before the stream is.
    group: Option<Connection>,
    replicas: Option<Connection>,
    products: Products,
    /// Made when first asked for: only training needs them.
    gradient_products: RefCell<Option<GradientProducts>>,
    pinned: Pool,
    modules: RefCell<HashMap<Unit, Arc<CudaModule>>>,
    arch: Arch,
    kept: Option<PathBuf>,
    is_recording: Cell<bool>,
    stream: Arc<CudaStream>,
    context: Arc<CudaContext>,
}

/// A recorded step.
pub struct Recording(CudaGraph);

// SAFETY: a graph may be used from any thread, from one at a time; nobody but its owner has it, and it is not `Sync`.
#[allow(unsafe_code)]
unsafe impl Send for Recording {}

impl Card<Nvidia> {
    /// Opens a card by its number; what is compiled is kept in a folder, where one is given.
    ///
    /// # Errors
    /// No such card, a missing library, or kernels that do not compile.
    pub fn open(ordinal: usize, kept: Option<PathBuf>) -> Result<Self, OpsError> {
        Self::new(Nvidia::open(ordinal, kept)?)
    }

    /// Opens a card as one rank of a tensor-parallel group; returns when all ranks have, each on a thread of its own.
    ///
    /// # Errors
    /// As [`Card::open`]; ranks that do not meet.
    pub fn open_rank(ordinal: usize, kept: Option<PathBuf>, seat: Seat) -> Result<Self, OpsError> {
        Self::open_seated(ordinal, kept, Some(seat), None)
    }

    /// Opens a card as one rank of a tensor-parallel group, one of several replicas, or both; returns when all ranks have.
    ///
    /// # Errors
    /// As [`Card::open_rank`].
    pub fn open_seated(
        ordinal: usize,
        kept: Option<PathBuf>,
        rank: Option<Seat>,
        replica: Option<Seat>,
    ) -> Result<Self, OpsError> {
        Self::new(Nvidia::open_seated(ordinal, kept, rank, replica)?)
    }
}

impl Nvidia {
    /// How many cards there are; 0 without a driver.
    pub fn count() -> usize {
        #[allow(unsafe_code)]
        // SAFETY: looking for a library runs its initialisers, and the driver's do nothing that others see.
        let driver = unsafe { sys::is_culib_present() };
        if driver { CudaContext::device_count().map_or(0, |count| count.max(0) as usize) } else { 0 }
    }

    /// Opens a card by its number, as one rank of a tensor-parallel group, one of several replicas, or both; returns when all
    /// ranks have, each on a thread of its own.
    ///
    /// # Errors
    /// As [`Nvidia::open`]; ranks that do not meet.
    pub fn open_seated(
        ordinal: usize,
        kept: Option<PathBuf>,
        rank: Option<Seat>,
        replica: Option<Seat>,
    ) -> Result<Self, OpsError> {
        let mut card = Self::open(ordinal, kept)?;
        card.group = rank.map(|seat| Connection::new(&card.stream, seat)).transpose()?;
        card.replicas = replica.map(|seat| Connection::new(&card.stream, seat)).transpose()?;
        Ok(card)
    }

    /// Opens a card by its number.
    ///
    /// # Errors
    /// No such card, or a missing library; a card that has failed this process before, whatever was given back since.
    pub fn open(ordinal: usize, kept: Option<PathBuf>) -> Result<Self, CardError> {
        #[allow(unsafe_code)]
        // SAFETY: as in `count`, for both libraries.
        let (driver, products) = unsafe { (sys::is_culib_present(), cudarc::cublaslt::sys::is_culib_present()) };
        if !driver {
            return Err(CardError::Library { library: "libcuda", package: "NVIDIA's driver" });
        }
        if !products {
            let package = "CUDA 13 or its wheel nvidia-cublas";
            return Err(CardError::Library { library: "libcublasLt", package });
        }
        let context = CudaContext::new(ordinal).map_err(failed("opening a card"))?;
        #[allow(unsafe_code)]
        // SAFETY: nothing is allocated yet, and all memory is made, used and given back on the one stream below.
        unsafe {
            context.disable_event_tracking();
        }
        let (major, minor) = context.compute_capability().map_err(failed("asking for a card's capability"))?;
        let attribute = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let multiprocessors =
            context.attribute(attribute).map_err(failed("asking for a card's multiprocessors"))? as u32;
        let arch = Arch::of(major, minor)?;
        let stream = context.new_stream().map_err(failed("making a stream"))?;
        let products = Products::new(&stream)?;
        Ok(Self {
            context,
            stream,
            begins_early: major >= 9,
            multiprocessors,
            wait_max: Cell::new(WAIT_MAX),
            group: None,
            replicas: None,
            pinned: Pool::default(),
            arch,
            kept,
            is_recording: Cell::new(false),
            modules: RefCell::default(),
            products,
            gradient_products: RefCell::default(),
        })
    }

    /// Bytes of memory that are free, and all there are.
    ///
    /// # Errors
    /// A card that failed.
    pub fn memory(&self) -> Result<(usize, usize), CardError> {
        self.context.mem_get_info().map_err(failed("asking for free memory"))
    }

    /// What it compiles for.
    pub fn arch(&self) -> &Arch {
        &self.arch
    }

    pub(super) fn parts(&self) -> (&Arc<CudaContext>, &Arc<CudaStream>) {
        (&self.context, &self.stream)
    }

    /// Makes the card that of this thread, which need not be the one that opened it.
    fn bind(&self) -> Result<(), CardError> {
        self.context.bind_to_thread().map_err(failed("using a card from another thread"))
    }

    /// What is done with the other replicas; alone, nothing.
    fn with_replicas(&self, run: impl FnOnce(&Connection) -> Result<(), OpsError>) -> Result<(), OpsError> {
        self.bind()?;
        self.replicas.as_ref().map_or(Ok(()), run)
    }

    /// Copies and reservations would become part of a recording, or spoil it.
    fn refuse_in_recording(&self, what: &str) -> Result<(), CardError> {
        match self.is_recording.get() {
            false => Ok(()),
            true => Err(CardError::Call { doing: "recording a step", error: format!("{what} meanwhile") }),
        }
    }

    /// Whoever waits for the card gives up after this time: what is more than any step takes, and less than whoever waits for
    /// the step can bear. A minute at first.
    pub fn wait_at_most(&self, limit: Duration) {
        self.wait_max.set(limit);
    }

    /// Waits for all work until now, no longer than it may take: a card that hangs must not keep whoever waits for ever.
    fn wait(&self) -> Result<(), OpsError> {
        let done = self.stream.record_event(None).map_err(failed("waiting for the card"))?;
        let began = Instant::now();
        while !done.try_is_complete().map_err(failed("waiting for the card"))? {
            if began.elapsed() > self.wait_max.get() {
                let error = format!("it has not ended a step within {} s", self.wait_max.get().as_secs());
                return Err(CardError::Call { doing: "waiting for the card", error }.into());
            }
            // A sum that somebody has left never ends.
            [&self.group, &self.replicas].into_iter().flatten().try_for_each(Connection::check)?;
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Waits for all that was started, no longer than a step may take.
    ///
    /// # Errors
    /// A card that failed, or that hangs.
    pub fn wait_for_all(&self) -> Result<(), OpsError> {
        self.bind()?;
        self.wait()
    }

    /// Makes the card fail, as a faulty kernel would: whoever uses it next hears of it, and it is lost to this process for good.
    /// For showing that those whose model is in a process of its own get over that.
    ///
    /// # Errors
    /// A kernel that does not compile, or a card that has failed already.
    pub fn inject_failure(&self) -> Result<(), OpsError> {
        let kernel = self.kernel(&Unit::fault(), "fault", 0)?;
        #[allow(unsafe_code)]
        // SAFETY: the kernel takes no arguments and touches no memory.
        unsafe {
            self.launch(&kernel, Shape { grid: [1, 1], threads: 32, shared_bytes: 0 }, &[])
        }
    }

    /// Copies a piece of memory to another of the same size.
    pub(super) fn copy(&self, from: &CudaSlice<u8>, to: &mut CudaSlice<u8>) -> Result<(), CardError> {
        self.stream.memcpy_dtod(from, to).map_err(failed("copying within the card"))
    }

    fn module(&self, unit: &Unit) -> Result<Arc<CudaModule>, CardError> {
        if let Some(module) = self.modules.borrow().get(unit) {
            return Ok(Arc::clone(module));
        }
        let compiled = compile(unit, &self.arch, self.kept.as_deref())?;
        let module =
            self.context.load_module(Ptx::from_binary(compiled.image)).map_err(failed("loading compiled kernels"))?;
        self.modules.borrow_mut().insert(unit.clone(), Arc::clone(&module));
        Ok(module)
    }
}

fn failed(doing: &'static str) -> impl Fn(DriverError) -> CardError {
    move |error| CardError::call(doing)(&error)
}

fn outside(op: &'static str, at: usize, bytes: usize, of: usize) -> OpsError {
    OpsError::Shape { op, expected: format!("at most {of} bytes"), got: format!("{bytes} from byte {at}") }
}

impl Driver for Nvidia {
    type Memory = CudaSlice<u8>;
    type Kernel = CudaFunction;
    type Graph = Recording;

    fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    fn reserve(&self, what: &'static str, bytes: usize) -> Result<CudaSlice<u8>, OpsError> {
        self.refuse_in_recording("memory was reserved")?;
        self.stream.alloc_zeros(bytes.max(1)).map_err(|error| match error.0 {
            cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY => OpsError::Memory { what, bytes: bytes as u128 },
            _ => failed("reserving memory")(error).into(),
        })
    }

    fn address(&self, memory: &CudaSlice<u8>) -> u64 {
        memory.device_ptr(&self.stream).0
    }

    fn upload(&self, bytes: &[u8], memory: &mut CudaSlice<u8>, at: usize) -> Result<(), OpsError> {
        self.refuse_in_recording("something was copied")?;
        let of = memory.len();
        let end = at.checked_add(bytes.len()).ok_or_else(|| outside("upload", at, bytes.len(), of))?;
        let mut piece = memory.try_slice_mut(at..end).ok_or_else(|| outside("upload", at, bytes.len(), of))?;
        if bytes.is_empty() {
            return Ok(());
        }
        Ok(self.stream.memcpy_htod(bytes, &mut piece).map_err(failed("copying to the card"))?)
    }

    fn download(&self, memory: &CudaSlice<u8>, at: usize, bytes: &mut [u8]) -> Result<(), OpsError> {
        self.refuse_in_recording("something was read")?;
        let (of, count) = (memory.len(), bytes.len());
        let end = at.checked_add(count).ok_or_else(|| outside("download", at, count, of))?;
        let piece = memory.try_slice(at..end).ok_or_else(|| outside("download", at, count, of))?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.wait()?;
        self.stream.memcpy_dtoh(&piece, bytes).map_err(failed("copying from the card"))?;
        Ok(self.stream.synchronize().map_err(failed("waiting for the card"))?)
    }

    fn host(&self, bytes: usize) -> HostBytes {
        self.pinned.take(&self.context, bytes)
    }

    fn kernel(&self, unit: &Unit, name: &'static str, shared_bytes: u32) -> Result<CudaFunction, OpsError> {
        self.bind()?;
        let kernel = self.module(unit)?.load_function(name).map_err(failed("finding a kernel"))?;
        if shared_bytes > SHARED_FREE_BYTES {
            let attribute = CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            kernel.set_attribute(attribute, shared_bytes as i32).map_err(failed("asking for shared memory"))?;
        }
        Ok(kernel)
    }

    fn is_hopper(&self) -> bool {
        self.arch.is_hopper()
    }

    fn boxes(&self, address: u64, rows: u64, width: usize) -> Result<Option<[u8; BOXES_BYTES]>, OpsError> {
        if !self.is_hopper() {
            return Ok(None);
        }
        self.bind()?;
        Ok(Some(described(address, rows, width)?))
    }

    #[allow(unsafe_code, reason = "kernels are not checked")]
    unsafe fn launch(&self, kernel: &CudaFunction, shape: Shape, args: &[Arg]) -> Result<(), OpsError> {
        self.bind()?;
        // Little-endian, so that an argument of four bytes is the lower half of eight.
        let mut bits = [0_u64; ARGUMENTS_MAX];
        let mut places = [std::ptr::null_mut::<c_void>(); ARGUMENTS_MAX];
        assert!(args.len() <= ARGUMENTS_MAX, "a kernel of {} arguments", args.len());
        for ((bits, place), arg) in bits.iter_mut().zip(&mut places).zip(args) {
            *bits = arg.bits().0;
            *place = std::ptr::from_mut(bits).cast();
        }
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: shape.grid[0],
            gridDimY: shape.grid[1],
            gridDimZ: 1,
            blockDimX: shape.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shape.shared_bytes,
            hStream: self.stream.cu_stream(),
            attrs: &raw mut attribute,
            numAttrs: self.begins_early.into(),
        };
        // SAFETY: the caller's duty; configuration and arguments live through the call, which copies them.
        let status = unsafe {
            sys::cuLaunchKernelEx(&raw const config, kernel.cu_function(), places.as_mut_ptr(), std::ptr::null_mut())
        };
        Ok(status.result().map_err(failed("starting a kernel"))?)
    }

    fn record(&self, run: &mut dyn FnMut() -> Result<(), OpsError>) -> Result<Option<Recording>, OpsError> {
        // Other threads of the process go on with their own cards.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.stream.begin_capture(mode).map_err(failed("recording a step"))?;
        self.is_recording.set(true);
        let ran = run();
        self.is_recording.set(false);
        let graph = self.stream.end_capture(sys::CUgraphInstantiate_flags(0));
        ran?;
        Ok(graph.map_err(failed("recording a step"))?.map(Recording))
    }

    fn play(&self, graph: &Recording) -> Result<(), OpsError> {
        Ok(graph.0.launch().map_err(failed("playing back a step"))?)
    }

    fn ranks(&self) -> usize {
        self.group.as_ref().map_or(1, |group| group.ranks)
    }

    fn rank(&self) -> usize {
        self.group.as_ref().map_or(0, |group| group.rank)
    }

    #[allow(unsafe_code, reason = "addresses are not checked")]
    unsafe fn sum_over_ranks(&self, address: u64, count: usize) -> Result<(), OpsError> {
        self.bind()?;
        match &self.group {
            None => Ok(()),
            // SAFETY: the caller's duty.
            Some(group) => unsafe { group.sum(address, count) },
        }
    }

    #[allow(unsafe_code, reason = "addresses are not checked")]
    unsafe fn product(&self, product: &Product) -> Result<(), OpsError> {
        self.bind()?;
        // SAFETY: the caller's duty.
        Ok(unsafe { self.products.run(product) }?)
    }

    #[allow(unsafe_code, reason = "addresses are not checked")]
    unsafe fn combine_over_ranks(&self, how: Combine, address: u64, count: usize) -> Result<(), OpsError> {
        self.bind()?;
        match &self.group {
            None => Ok(()),
            // SAFETY: the caller's duty.
            Some(group) => unsafe { group.combine(how, address, count) },
        }
    }

    fn replicas(&self) -> usize {
        self.replicas.as_ref().map_or(1, |group| group.ranks)
    }

    fn replica(&self) -> usize {
        self.replicas.as_ref().map_or(0, |group| group.rank)
    }

    #[allow(unsafe_code, reason = "addresses are not checked")]
    unsafe fn sum_over_replicas(&self, address: u64, count: usize) -> Result<(), OpsError> {
        // SAFETY: the caller's duty.
        self.with_replicas(|group| unsafe { group.combine(Combine::SumDouble, address, count) })
    }

    #[allow(unsafe_code, reason = "addresses are not checked")]
    unsafe fn reduce_to_owners(&self, pieces: &[Owned]) -> Result<(), OpsError> {
        // SAFETY: the caller's duty.
        self.with_replicas(|group| unsafe { group.reduce(pieces) })
    }

    #[allow(unsafe_code, reason = "addresses are not checked")]
    unsafe fn spread_from_owners(&self, pieces: &[Owned]) -> Result<(), OpsError> {
        // SAFETY: the caller's duty.
        self.with_replicas(|group| unsafe { group.spread(pieces) })
    }

    #[allow(unsafe_code, reason = "addresses are not checked")]
    unsafe fn pass_to_first(&self, piece: &Owned) -> Result<(), OpsError> {
        // SAFETY: the caller's duty.
        self.with_replicas(|group| unsafe { group.pass(piece) })
    }

    #[allow(unsafe_code, reason = "addresses are not checked")]
    unsafe fn gradient_product(&self, product: &GradientProduct) -> Result<(), OpsError> {
        self.bind()?;
        let mut products = self.gradient_products.borrow_mut();
        let products = match &mut *products {
            Some(products) => products,
            none => none.insert(GradientProducts::new(&self.stream)?),
        };
        // SAFETY: the caller's duty.
        Ok(unsafe { products.run(product) }?)
    }
}
