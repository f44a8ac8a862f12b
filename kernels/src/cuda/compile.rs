//! From a source to machine code for one generation of cards, by NVRTC, which needs no card; and a folder that keeps what was
//! compiled, by the digest of source, options and compiler. A kept image has its own digest before it, so that a damaged one
//! is compiled anew.
//!
//! It refuses to know what kernels do. Of the folder it says nothing when it cannot be written: that costs seconds, no more.

use super::error::CardError;
use super::source::Unit;
use cudarc::nvrtc::{result, sys};
use std::ffi::{CString, c_char};
use std::path::Path;

/// The least capability that kernels compile for.
const MAJOR_MIN: i32 = 8;
/// The cards of capability 9.0, with what later ones lack.
const HOPPER: &str = "sm_90a";
/// Bytes of a digest.
const DIGEST: usize = blake3::OUT_LEN;

/// For which cards: `sm_90a`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arch(String);

impl Arch {
    /// Of a card's compute capability; with the instructions that only Hopper has, where it is one.
    ///
    /// # Errors
    /// A card that is too old.
    pub fn of(major: i32, minor: i32) -> Result<Self, CardError> {
        match (major, minor) {
            _ if major < MAJOR_MIN => Err(CardError::TooOld { major, minor }),
            (9, 0) => Ok(Self(HOPPER.to_owned())),
            _ => Ok(Self(format!("sm_{major}{minor}"))),
        }
    }

    /// Whether it has the instructions that only Hopper has.
    pub fn is_hopper(&self) -> bool {
        self.0 == HOPPER
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// What came of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Machine code as a driver loads it (CUBIN).
    pub image: Vec<u8>,
    /// The compiler's words: registers, shared memory and spills of each kernel; empty where it was kept from before.
    pub log: String,
}

/// The compiler's version; none where there is no compiler.
pub fn compiler_version() -> Option<(i32, i32)> {
    let (mut major, mut minor) = (0, 0);
    #[allow(unsafe_code)]
    // SAFETY: looking for a library runs its initialisers, and NVRTC's do nothing that others see; the two addresses are
    // of numbers that live through the call.
    let result = unsafe { sys::is_culib_present().then(|| sys::nvrtcVersion(&mut major, &mut minor)) };
    result?.result().ok()?;
    Some((major, minor))
}

/// Compiles a unit, or takes what `kept` holds of it.
///
/// # Errors
/// No compiler, or a source that it refuses.
pub fn compile(unit: &Unit, arch: &Arch, kept: Option<&Path>) -> Result<Compiled, CardError> {
    let version = compiler_version()
        .ok_or(CardError::Library { library: "libnvrtc", package: "CUDA 13 or its wheel nvidia-cuda-nvrtc" })?;
    let (source, options) = (unit.source(), options(unit, arch));
    let file = kept.map(|folder| folder.join(format!("{}.cubin", digest(&source, &options, version))));
    if let Some(image) = file.as_deref().and_then(read_kept) {
        return Ok(Compiled { image, log: String::new() });
    }
    let compiled = run(unit, arch, &source, &options)?;
    if let Some(file) = file {
        // Whoever cannot keep it compiles again next time.
        let _ = keep(&file, &compiled.image);
    }
    Ok(compiled)
}

fn options(unit: &Unit, arch: &Arch) -> Vec<String> {
    let fixed = ["--std=c++17", "--ptxas-options=-v"].map(str::to_owned);
    [vec![format!("--gpu-architecture={}", arch.0)], fixed.to_vec(), unit.options()].concat()
}

fn digest(source: &str, options: &[String], version: (i32, i32)) -> String {
    let mut hasher = blake3::Hasher::new();
    let version = format!("{}.{}", version.0, version.1);
    for part in [&[source.to_owned(), version][..], options].concat() {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

fn read_kept(file: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(file).ok()?;
    let (digest, image) = bytes.split_at_checked(DIGEST)?;
    (blake3::hash(image).as_bytes() == digest).then(|| image.to_vec())
}

/// Writes beside its place first, so that it is there entirely or not at all; two that write the same write equal bytes.
fn keep(file: &Path, image: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let beside = file.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&beside, [blake3::hash(image).as_bytes(), image].concat())?;
    std::fs::rename(&beside, file)
}

/// A program of the compiler, which is let go with it.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        #[allow(unsafe_code)]
        // SAFETY: it was created by `create_program`, and only here is it destroyed.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

fn run(unit: &Unit, arch: &Arch, source: &str, options: &[String]) -> Result<Compiled, CardError> {
    let failed = |doing, error: result::NvrtcError| CardError::call(doing)(&error);
    let text = CString::new(source).expect("sources are of this crate and hold no zero byte");
    let name = CString::new(unit.file).expect("names of sources hold no zero byte");
    let program = Program(result::create_program(&text, Some(&name)).map_err(|error| failed("starting NVRTC", error))?);
    #[allow(unsafe_code)]
    // SAFETY: the program was created above and lives until the end; source and name outlive it.
    let (done, log) = unsafe {
        let done = result::compile_program(program.0, options);
        (done, result::get_program_log(program.0).map_err(|error| failed("reading NVRTC's words", error))?)
    };
    let log: Vec<u8> = log.into_iter().map(|byte| byte as u8).take_while(|byte| *byte != 0).collect();
    let log = String::from_utf8_lossy(&log).into_owned();
    if let Err(error) = done {
        let log = if log.trim().is_empty() { format!("{error:?}") } else { log };
        return Err(CardError::Compile { file: unit.file, arch: arch.0.clone(), log });
    }
    let mut size = 0;
    #[allow(unsafe_code)]
    // SAFETY: the program is compiled; `size` lives through the call.
    unsafe { sys::nvrtcGetCUBINSize(program.0, &mut size) }
        .result()
        .map_err(|error| failed("measuring an image", error))?;
    let mut image = vec![0_u8; size];
    #[allow(unsafe_code)]
    // SAFETY: the buffer has the size that the compiler just gave.
    unsafe { sys::nvrtcGetCUBIN(program.0, image.as_mut_ptr().cast::<c_char>()) }
        .result()
        .map_err(|error| failed("reading an image", error))?;
    Ok(Compiled { image, log })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hopper_gets_its_own_instructions_and_old_cards_are_refused() {
        assert_eq!(Arch::of(9, 0).unwrap().name(), "sm_90a");
        assert_eq!((Arch::of(8, 0).unwrap().name(), Arch::of(10, 3).unwrap().name()), ("sm_80", "sm_103"));
        assert!(Arch::of(7, 5).unwrap_err().to_string().contains("8.0 (Ampere) or later, got 7.5"));
    }

    #[test]
    fn a_kept_image_is_read_again_and_a_damaged_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep").join("image.cubin");
        keep(&file, b"machine code").unwrap();
        assert_eq!(read_kept(&file).unwrap(), b"machine code");
        let mut bytes = std::fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(read_kept(&file), None);
        std::fs::write(&file, b"short").unwrap();
        assert_eq!(read_kept(&file), None);
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn the_digest_tells_sources_options_and_compilers_apart() {
        let (unit, other) = (Unit::decode(128, 4), Unit::decode(128, 2));
        let hopper = Arch::of(9, 0).unwrap();
        let of = |unit: &Unit, arch: &Arch, version| digest(&unit.source(), &options(unit, arch), version);
        let digests = [
            of(&unit, &hopper, (13, 0)),
            of(&other, &hopper, (13, 0)),
            of(&unit, &Arch::of(8, 0).unwrap(), (13, 0)),
            of(&unit, &hopper, (13, 1)),
            of(&Unit::plain(), &hopper, (13, 0)),
        ];
        let different: std::collections::BTreeSet<&String> = digests.iter().collect();
        assert_eq!(different.len(), digests.len());
        assert_eq!(digests[0], of(&Unit::decode(128, 4), &hopper, (13, 0)));
    }
}
