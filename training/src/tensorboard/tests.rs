use super::*;
use proptest::prelude::*;
use serde_json::Value;

/// What `goldens/make_tensorboard_goldens.py` made with TensorBoard's own classes.
fn golden() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens/tensorboard.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A whole record's event and what is behind it, after both checksums.
fn take_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (check, rest) = rest.split_first_chunk::<4>()?;
    assert_eq!(u32::from_le_bytes(*check), masked(length));
    let (event, rest) = rest.split_at_checked(u64::from_le_bytes(*length) as usize)?;
    let (check, rest) = rest.split_first_chunk::<4>()?;
    assert_eq!(u32::from_le_bytes(*check), masked(event));
    Some((event, rest))
}

fn take_varint(mut bytes: &[u8]) -> (u64, &[u8]) {
    let (mut value, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        value |= u64::from(byte & 0x7f) << shift;
        (bytes, shift) = (rest, shift + 7);
        if byte & 0x80 == 0 {
            break;
        }
    }
    (value, bytes)
}

/// One field: its number, its value where that is a varint, its bytes where it has some, and what is behind it.
fn take_field(bytes: &[u8]) -> Option<(u8, u64, &[u8], &[u8])> {
    let (key, rest) = bytes.split_first()?;
    let (value, length, rest) = match key & 7 {
        VARINT => {
            let (value, rest) = take_varint(rest);
            (value, 0, rest)
        }
        FIXED64 => (0, 8, rest),
        FIXED32 => (0, 4, rest),
        _ => {
            let (length, rest) = take_varint(rest);
            (0, length as usize, rest)
        }
    };
    let (own, rest) = rest.split_at(length);
    Some((key >> 3, value, own, rest))
}

/// Step, time, and scalars of an event.
fn decoded(event: &[u8]) -> (u64, f64, Vec<(String, f32)>) {
    let (mut step, mut wall, mut scalars, mut left) = (0, 0.0, Vec::new(), event);
    while let Some((field, number, bytes, rest)) = take_field(left) {
        match field {
            1 => wall = f64::from_le_bytes(bytes.try_into().unwrap()),
            2 => step = number,
            5 => {
                let mut summary = bytes;
                while let Some((1, _, one, rest)) = take_field(summary) {
                    let (1, _, tag, value) = take_field(one).unwrap() else { panic!("a tag comes first") };
                    let (2, _, value, []) = take_field(value).unwrap() else { panic!("then the value") };
                    let value = f32::from_le_bytes(value.try_into().unwrap());
                    scalars.push((String::from_utf8(tag.to_vec()).unwrap(), value));
                    summary = rest;
                }
            }
            _ => {}
        }
        left = rest;
    }
    (step, wall, scalars)
}

#[test]
fn records_are_the_bytes_that_tensorboards_own_writer_makes() {
    for case in golden()["events"].as_array().unwrap() {
        let wall = case["wall_secs"].as_f64().unwrap();
        let event = match case["scalars"].as_array() {
            None => Event::version(wall),
            Some(scalars) => {
                let scalars: Vec<(&str, f32)> =
                    scalars.iter().map(|pair| (pair[0].as_str().unwrap(), pair[1].as_f64().unwrap() as f32)).collect();
                Event::scalars(case["step"].as_u64().unwrap(), wall, &scalars)
            }
        };
        assert_eq!(hex(&record(&event)), case["record"].as_str().unwrap(), "{case}");
    }
}

#[test]
fn a_file_begins_with_its_version_and_holds_what_was_written_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = EventWriter::create(&folder.path().join("a/b"), 1_700_000_000.5, "node-1").unwrap();
    writer.scalars(1, 2.0, &[("train/loss", 1.5), ("train/lr", 0.0)]).unwrap();
    writer.scalars(2, 3.0, &[("train/loss", f32::NAN)]).unwrap();
    assert!(writer.path().ends_with("a/b/events.out.tfevents.1700000000.node-1"));
    let bytes = std::fs::read(writer.path()).unwrap();
    let (version, rest) = take_record(&bytes).unwrap();
    assert!(version.ends_with(FILE_VERSION.as_bytes()));
    let (first, rest) = take_record(rest).unwrap();
    assert_eq!(decoded(first), (1, 2.0, vec![("train/loss".to_owned(), 1.5), ("train/lr".to_owned(), 0.0)]));
    let (second, rest) = take_record(rest).unwrap();
    assert!(decoded(second).2[0].1.is_nan() && rest.is_empty());
}

#[test]
fn a_second_file_of_the_same_second_has_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<PathBuf> =
        (0..3).map(|_| EventWriter::create(folder.path(), 7.0, "../../x").unwrap().path().to_path_buf()).collect();
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(name(&names[0]), "events.out.tfevents.0000000007..._.._x");
    assert_eq!(name(&names[2]), "events.out.tfevents.0000000007..._.._x.2");
    assert!(names.iter().all(|path| path.parent() == Some(folder.path())));
}

#[test]
fn tags_that_no_reader_shows_are_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = EventWriter::create(folder.path(), 7.0, "h").unwrap();
    let before = std::fs::read(writer.path()).unwrap();
    let long = "t".repeat(TAG_BYTES_MAX + 1);
    for tag in ["", &long] {
        let error = writer.scalars(1, 1.0, &[("fine", 1.0), (tag, 1.0)]).unwrap_err().to_string();
        assert!(error.contains("tag: expected a name"), "{error}");
    }
    assert!(writer.scalars(1, 1.0, &[("x", 1.0); SCALARS_MAX + 1]).is_err());
    assert_eq!(std::fs::read(writer.path()).unwrap(), before);
}

proptest! {
    #[test]
    fn what_is_written_decodes_to_the_same(
        step in any::<u64>(), wall in any::<f64>(),
        scalars in prop::collection::vec((".{1,9}", any::<f32>()), 0..9),
    ) {
        let given: Vec<(&str, f32)> = scalars.iter().map(|(tag, value)| (tag.as_str(), *value)).collect();
        let record = record(&Event::scalars(step, wall, &given));
        let (event, rest) = take_record(&record).unwrap();
        let (got_step, got_wall, got) = decoded(event);
        prop_assert!(rest.is_empty() && got_step == step && got_wall.to_bits() == wall.to_bits());
        prop_assert_eq!(got.len(), scalars.len());
        for ((tag, value), (expected_tag, expected)) in got.iter().zip(&scalars) {
            prop_assert!(tag == expected_tag && value.to_bits() == expected.to_bits());
        }
    }
}
