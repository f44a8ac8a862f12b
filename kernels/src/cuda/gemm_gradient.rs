//! The two products of a linear map's way back by cuBLASLt: `dx = d W` in bf16, and `dW += dᵀ x` in `f32`, added to what is
//! there by the product itself. Partial sums are added in `f32`, in an order that the algorithm fixes.
//!
//! To the library, which counts by columns, a row-major matrix is its transposed: `dxᵀ = Wᵀ dᵀ` is of both as they lie, and
//! `dWᵀ = xᵀ d` of `x` as it lies and `d` transposed. It refuses to know whose weights these are.

use super::driver::{GradientOf, GradientProduct};
use super::error::CardError;
use super::gemm::{AS_IT_IS, Handle, Layout, Operation, Preference, REDUCTIONS, TRANSPOSED, WORKSPACE_BYTES, failed};
use cudarc::cublaslt::sys::cublasLtMatmulDescAttributes_t as Attribute;
use cudarc::cublaslt::sys::cublasLtMatmulPreferenceAttributes_t as Preferred;
use cudarc::cublaslt::{result, sys};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

/// Shapes that are kept at most; beyond it all are forgotten.
const SHAPES_MAX: usize = 1_024;

/// The library with what it was told.
pub(super) struct GradientProducts {
    known: RefCell<HashMap<Key, Known>>,
    handle: Handle,
    workspace: CudaSlice<u8>,
    stream: Arc<CudaStream>,
}

// SAFETY: the library's handles may be used from any thread, and this is not `Sync`, so from one at a time.
#[allow(unsafe_code)]
unsafe impl Send for GradientProducts {}

/// All that an algorithm depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    of: GradientOf,
    sizes: [usize; 3],
    strides: [usize; 3],
}

struct Known {
    operation: Operation,
    left: Layout,
    right: Layout,
    out: Layout,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

fn layout(kind: sys::cudaDataType_t, rows: usize, cols: usize, stride: usize) -> Result<Layout, CardError> {
    let made = result::create_matrix_layout(kind, rows as u64, cols as u64, stride as i64);
    made.map(Layout).map_err(failed("describing a matrix"))
}

impl GradientProducts {
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
    pub(super) unsafe fn run(&self, product: &GradientProduct) -> Result<(), CardError> {
        let key = Key {
            of: product.of,
            sizes: [product.rows, product.inputs, product.outputs],
            strides: [product.d_out.1, product.other.1, product.out.1],
        };
        let mut all = self.known.borrow_mut();
        if !all.contains_key(&key) {
            if all.len() >= SHAPES_MAX {
                all.clear();
            }
            all.insert(key, self.advise(key)?);
        }
        let known = &all[&key];
        let (one, kept) = (1.0_f32, if product.of == GradientOf::Weight { 1.0_f32 } else { 0.0 });
        let workspace = self.workspace.device_ptr(&self.stream).0;
        // SAFETY: all objects are alive, the matrices are the caller's duty, and the factors are read before the call returns.
        unsafe {
            result::matmul(
                self.handle.0,
                known.operation.0,
                (&raw const one).cast(),
                (&raw const kept).cast(),
                product.other.0 as *const c_void,
                known.left.0,
                product.d_out.0 as *const c_void,
                known.right.0,
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
        let (single, bf16) = (sys::cudaDataType_t::CUDA_R_32F, sys::cudaDataType_t::CUDA_R_16BF);
        let made = result::create_matmul_desc(sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, single);
        let operation = Operation(made.map_err(failed("describing a product"))?);
        let of_weight = key.of == GradientOf::Weight;
        operation.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &AS_IT_IS)?;
        let right = if of_weight { TRANSPOSED } else { AS_IT_IS };
        operation.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &right)?;
        let ([rows, inputs, outputs], [d_stride, other_stride, out_stride]) = (key.sizes, key.strides);
        let right = layout(bf16, outputs, rows, d_stride)?;
        let left = layout(bf16, inputs, if of_weight { rows } else { outputs }, other_stride)?;
        let out = match key.of {
            GradientOf::Weight => layout(single, inputs, outputs, out_stride)?,
            GradientOf::Inputs => layout(bf16, inputs, rows, out_stride)?,
        };
        let preference = Preference(result::create_matmul_pref().map_err(failed("describing a preference"))?);
        preference.set(Preferred::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &(WORKSPACE_BYTES as u64))?;
        preference.set(Preferred::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &REDUCTIONS)?;
        #[allow(unsafe_code)]
        // SAFETY: all objects are alive and describe the product that is to be run.
        let advice = unsafe {
            result::get_matmul_algo_heuristic(self.handle.0, operation.0, left.0, right.0, out.0, out.0, preference.0)
        }
        .map_err(failed("asking cuBLASLt for an algorithm"))?;
        Ok(Known { operation, left, right, out, algorithm: advice.algo })
    }
}
