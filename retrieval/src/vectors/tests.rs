use super::*;
use proptest::prelude::*;

fn npy(version: u8, descr: &str, fortran: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    match version {
        1 => bytes.extend((header.len() as u16).to_le_bytes()),
        _ => bytes.extend((header.len() as u32).to_le_bytes()),
    }
    bytes.extend(header.bytes());
    bytes.extend(values);
    bytes
}

fn safetensors(header: &str, values: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.extend(values);
    bytes
}

/// All rows of a file, or the text of the error.
fn read(name: &str, bytes: &[u8], tensor: Option<&str>) -> Result<Vec<Vec<f32>>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let file = VectorFile::open(&path, tensor).map_err(|e| e.to_string())?;
    let row = |i| {
        let mut vector = vec![0.0; file.dim()];
        file.read(i, &mut vector);
        vector
    };
    Ok((0..file.rows()).map(row).collect())
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

#[test]
fn every_number_type_and_version_of_npy_is_read() {
    let rows = vec![vec![1.0, -2.5], vec![0.0, 3.0]];
    let flat = [1.0_f32, -2.5, 0.0, 3.0];
    for version in 1..=3 {
        assert_eq!(read("a.npy", &npy(version, "<f4", "False", "(2, 2)", &f32s(&flat)), None).unwrap(), rows);
    }
    let doubles: Vec<u8> = flat.iter().flat_map(|&v| f64::from(v).to_le_bytes()).collect();
    assert_eq!(read("a.npy", &npy(1, "<f8", "False", "(2,2)", &doubles), None).unwrap(), rows);
    let halves: Vec<u8> = [0x3c00_u16, 0xc100, 0, 0x4200].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(read("a.npy", &npy(2, "<f2", "False", "(2, 2)", &halves), None).unwrap(), rows);
}

#[test]
fn npy_of_another_shape_order_or_type_is_refused_with_the_cure() {
    let error =
        |descr, fortran, shape| read("a.npy", &npy(1, descr, fortran, shape, &f32s(&[0.0; 4])), None).unwrap_err();
    assert!(error("<f4", "True", "(2, 2)").contains("ascontiguousarray"));
    assert!(error(">f4", "False", "(2, 2)").contains("astype"));
    assert!(error("<i8", "False", "(2, 2)").contains("astype"));
    assert!(error("<f4", "False", "(4,)").contains("reshape"));
    assert!(error("<f4", "False", "(3, 2)").contains("too short"));
    assert!(error("<f4", "False", "(99999999999, 99999999999)").contains("expected up to"));
    assert!(
        error("<f4", "False", "(4294967295, 65536)").contains("too short"),
        "what a header claims is not allocated"
    );
    assert!(error("<f4", "False", "(2, 0)").contains("check the shape"));
    assert!(read("a.bin", b"", None).unwrap_err().contains(".npy or .safetensors"));
    assert!(read("a.npy", b"PK", None).unwrap_err().contains("numpy.save"));
}

#[test]
fn a_safetensors_matrix_is_read_by_name() {
    let header = r#"{"__metadata__":{"a":"b"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"v":{"dtype":"BF16","shape":[2,1],"data_offsets":[8,12]}}"#;
    let mut values = f32s(&[1.5, 2.5]);
    values.extend([0x80, 0x3f, 0x00, 0xc0]);
    let bytes = safetensors(header, &values);
    assert_eq!(read("a.safetensors", &bytes, Some("w")).unwrap(), [[1.5, 2.5]]);
    assert_eq!(read("a.safetensors", &bytes, Some("v")).unwrap(), [[1.0], [-2.0]]);
    assert!(read("a.safetensors", &bytes, None).unwrap_err().contains("[\"v\", \"w\"]"));
    assert!(read("a.safetensors", &bytes, Some("x")).unwrap_err().contains("expected x among"));
}

#[test]
fn safetensors_that_contradict_themselves_are_refused() {
    let error = |header: &str| read("a.safetensors", &safetensors(header, &[0; 8]), None).unwrap_err();
    assert!(error(r#"{"w":{"dtype":"F32","shape":[9,2],"data_offsets":[0,8]}}"#).contains("fit its shape"));
    assert!(error(r#"{"w":{"dtype":"F32","shape":[1,2],"data_offsets":[8,0]}}"#).contains("fit its shape"));
    assert!(error(r#"{"w":{"dtype":"I64","shape":[1,1],"data_offsets":[0,8]}}"#).contains("convert"));
    assert!(error(r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#).contains("reshape"));
    assert!(error("{").contains("JSON header"));
    assert!(read("a.safetensors", &u64::MAX.to_le_bytes(), None).unwrap_err().contains("within the file"));
}

#[test]
fn halves_have_the_values_of_the_standard() {
    for bits in 0..=u16::MAX {
        let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
        let magnitude = match exponent {
            0 => fraction / 1024.0 * 2.0_f64.powi(-14),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1.0 + fraction / 1024.0) * 2.0_f64.powi(exponent - 15),
        };
        let truth = if bits >> 15 == 1 { -magnitude } else { magnitude };
        let got = f64::from(half(bits));
        assert!(got == truth || (got.is_nan() && truth.is_nan()), "{bits:#x}: {got}, expected {truth}");
    }
}

proptest! {
    #[test]
    fn damaged_headers_never_panic(at in 0_usize..120, value: u8, keep in 0_usize..140) {
        let good = npy(1, "<f4", "False", "(2, 2)", &f32s(&[0.0; 4]));
        let tensors = safetensors(r#"{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#, &[0; 16]);
        for (name, mut bytes) in [("a.npy", good), ("a.safetensors", tensors)] {
            let at = at % bytes.len();
            bytes[at] = value;
            bytes.truncate(keep);
            let _ = read(name, &bytes, None);
        }
    }
}
