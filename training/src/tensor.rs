//! A named tensor in the shape and under the name that a Hugging Face folder has, as `f32`, on its way between a checkpoint, the
//! network and an exported folder.
//! It refuses to know files.

/// A tensor: `[rows, cols]`, or `[1, cols]` for a vector.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTensor {
    /// Its Hugging Face name, such as `model.layers.0.self_attn.q_proj.weight`.
    pub name: String,
    /// Rows and columns; a vector is one row.
    pub shape: [usize; 2],
    /// Whether the file has it with one dimension.
    pub is_vector: bool,
    /// Row-major values.
    pub values: Vec<f32>,
}
