//! Products of matrices by cuBLASLt: bf16 in and out, sums in `f32`; where there is a bias, some of its algorithms round before
//! they add it. What the library is told of a shape, and the algorithm that it advises, is kept for that shape.
//!
//! `out = x Wᵀ` of row-major matrices is `outᵀ = W xᵀ`, and to the library, which counts by columns, our `W` is transposed,
//! `x` and `out` are as they should be. It refuses to know whose weights these are.

use super::driver::Product;
use super::error::CardError;
use cudarc::cublaslt::sys::cublasLtMatmulDescAttributes_t as Attribute;
use cudarc::cublaslt::sys::cublasLtMatmulPreferenceAttributes_t as Preferred;
use cudarc::cublaslt::{result, sys};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

/// Bytes of the library's workspace: what NVIDIA recommends for Hopper.
pub(super) const WORKSPACE_BYTES: usize = 32 << 20;
/// Shapes that are kept at most; beyond it all are forgotten, since a step's number of rows keeps changing.
const SHAPES_MAX: usize = 4_096;
/// Partial sums, where the library splits a product, are added in `f32`: not in place, and not rounded to bf16 first.
pub(super) const REDUCTIONS: u32 = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
/// `CUBLAS_OP_N` and `CUBLAS_OP_T` of the library's header.
pub(super) const AS_IT_IS: i32 = 0;
pub(super) const TRANSPOSED: i32 = 1;

/// The library with what it was told.
pub(super) struct Products {
    known: RefCell<HashMap<Key, Known>>,
    handle: Handle,
    workspace: CudaSlice<u8>,
    stream: Arc<CudaStream>,
}

// SAFETY: the library's handles may be used from any thread, and `Products` is not `Sync`, so from one at a time.
#[allow(unsafe_code)]
unsafe impl Send for Products {}

/// All that an algorithm depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    rows: usize,
    inputs: usize,
    outputs: usize,
    strides: [usize; 3],
    bias: bool,
}

struct Known {
    operation: Operation,
    weight: Layout,
    x: Layout,
    out: Layout,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

/// Makes an owner of one of the library's objects.
macro_rules! owner {
    ($name:ident, $type:ty, $destroy:path) => {
        pub(super) struct $name(pub(super) $type);

        impl Drop for $name {
            fn drop(&mut self) {
                #[allow(unsafe_code)]
                // SAFETY: only this owner has it, so it is destroyed once.
                let _ = unsafe { $destroy(self.0) };
            }
        }
    };
}

owner!(Handle, sys::cublasLtHandle_t, result::destroy_handle);
owner!(Layout, sys::cublasLtMatrixLayout_t, result::destroy_matrix_layout);
owner!(Operation, sys::cublasLtMatmulDesc_t, result::destroy_matmul_desc);
owner!(Preference, sys::cublasLtMatmulPreference_t, result::destroy_matmul_pref);

pub(super) fn failed(doing: &'static str) -> impl Fn(result::CublasError) -> CardError {
    move |error| CardError::call(doing)(&error)
}

fn layout(rows: usize, cols: usize, stride: usize) -> Result<Layout, CardError> {
    let made = result::create_matrix_layout(sys::cudaDataType_t::CUDA_R_16BF, rows as u64, cols as u64, stride as i64);
    made.map(Layout).map_err(failed("describing a matrix"))
}

impl Operation {
    pub(super) fn set<T>(&self, attribute: Attribute, value: &T) -> Result<(), CardError> {
        let value_at: *const T = value;
        #[allow(unsafe_code)]
        // SAFETY: the operation is alive, and the value has the size that is given.
        unsafe { result::set_matmul_desc_attribute(self.0, attribute, value_at.cast::<c_void>(), size_of::<T>()) }
            .map_err(failed("describing a product"))
    }
}

impl Preference {
    pub(super) fn set<T>(&self, attribute: Preferred, value: &T) -> Result<(), CardError> {
        let value_at: *const T = value;
        #[allow(unsafe_code)]
        // SAFETY: the preference is alive, and the value has the size that is given.
        unsafe { result::set_matmul_pref_attribute(self.0, attribute, value_at.cast::<c_void>(), size_of::<T>()) }
            .map_err(failed("describing a preference"))
    }
}

impl Products {
    pub(super) fn new(stream: &Arc<CudaStream>) -> Result<Self, CardError> {
        let handle = Handle(result::create_handle().map_err(failed("starting cuBLASLt"))?);
        #[allow(unsafe_code)]
        // SAFETY: what the workspace holds is never read before the library has written it.
        let workspace = unsafe { stream.alloc::<u8>(WORKSPACE_BYTES) }
            .map_err(|error| CardError::call("reserving cuBLASLt's workspace")(&error))?;
        Ok(Self { known: RefCell::default(), handle, workspace, stream: Arc::clone(stream) })
    }

    /// Starts a product.
    ///
    /// # Safety
    /// The addresses are those of such matrices on this card.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    pub(super) unsafe fn run(&self, product: &Product) -> Result<(), CardError> {
        let key = Key {
            rows: product.rows,
            inputs: product.inputs,
            outputs: product.outputs,
            strides: [product.x.1, product.weight.1, product.out.1],
            bias: product.bias.is_some(),
        };
        let mut all = self.known.borrow_mut();
        if !all.contains_key(&key) {
            if all.len() >= SHAPES_MAX {
                all.clear();
            }
            all.insert(key, self.advise(key)?);
        }
        let known = &all[&key];
        if let Some(bias) = &product.bias {
            known.operation.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias)?;
        }
        let (one, zero) = (1.0_f32, 0.0_f32);
        let workspace = self.workspace.device_ptr(&self.stream).0;
        // SAFETY: all objects are alive, the matrices are the caller's duty, and the factors are read before the call returns.
        unsafe {
            result::matmul(
                self.handle.0,
                known.operation.0,
                (&raw const one).cast(),
                (&raw const zero).cast(),
                product.weight.0 as *const c_void,
                known.weight.0,
                product.x.0 as *const c_void,
                known.x.0,
                product.out.0 as *const c_void,
                known.out.0,
                product.out.0 as *mut c_void,
                known.out.0,
                &known.algorithm,
                workspace as *mut c_void,
                WORKSPACE_BYTES,
                self.stream.cu_stream().cast(),
            )
        }
        .map_err(failed("starting a product"))
    }

    /// Describes a shape, and asks for an algorithm.
    fn advise(&self, key: Key) -> Result<Known, CardError> {
        let of_floats = (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, sys::cudaDataType_t::CUDA_R_32F);
        let operation = result::create_matmul_desc(of_floats.0, of_floats.1).map_err(failed("describing a product"))?;
        let operation = Operation(operation);
        operation.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &TRANSPOSED)?;
        operation.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &AS_IT_IS)?;
        if key.bias {
            let epilogue = sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
            operation.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue)?;
            // Advice may depend on how a bias is aligned, and all of ours are as the workspace is.
            let aligned: u64 = self.workspace.device_ptr(&self.stream).0;
            operation.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &aligned)?;
        }
        let [x_stride, weight_stride, out_stride] = key.strides;
        let weight = layout(key.inputs, key.outputs, weight_stride)?;
        let x = layout(key.inputs, key.rows, x_stride)?;
        let out = layout(key.outputs, key.rows, out_stride)?;
        let preference = Preference(result::create_matmul_pref().map_err(failed("describing a preference"))?);
        preference.set(Preferred::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &(WORKSPACE_BYTES as u64))?;
        preference.set(Preferred::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &REDUCTIONS)?;
        #[allow(unsafe_code)]
        // SAFETY: all objects are alive and describe the product that is to be run.
        let advice = unsafe {
            result::get_matmul_algo_heuristic(self.handle.0, operation.0, weight.0, x.0, out.0, out.0, preference.0)
        }
        .map_err(failed("asking cuBLASLt for an algorithm"))?;
        Ok(Known { operation, weight, x, out, algorithm: advice.algo })
    }
}
