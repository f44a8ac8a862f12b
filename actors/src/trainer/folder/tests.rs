use super::*;
use legwork_training::course::Progress;

fn manifest(began_epoch_ms: u64) -> TrainingManifest {
    let mut manifest = TrainingManifest::new("a".to_owned(), began_epoch_ms, "0".to_owned());
    manifest.inputs.insert("rows".to_owned(), "abc".to_owned());
    manifest
}

fn at(slots: u64) -> Record {
    Record::Begun { at: Progress { slots, updates: slots }, at_ms: 5 }
}

fn evaluation(slots: u64) -> Record {
    Record::Evaluation { at: Progress { slots, updates: slots }, loss: None, took_ms: 1, at_ms: 5 }
}

fn steps(folder: &Path) -> Vec<u64> {
    read_records(folder).unwrap().records.iter().map(Record::step).collect()
}

#[test]
fn records_are_chained_to_the_manifest_and_read_back() {
    let place = tempfile::tempdir().unwrap();
    let run = place.path().join("deep/run");
    let mut folder = TrainingFolder::create(&run, &manifest(1)).unwrap();
    [at(0), evaluation(0), at(1)].iter().for_each(|record| folder.append(record).unwrap());
    folder.sync().unwrap();
    let read = read_records(&run).unwrap();
    assert_eq!(read.records, [at(0), evaluation(0), at(1)]);
    assert_eq!(read.last_link, blake3::Hash::from_bytes(folder.last()).to_hex().as_str());
    assert_eq!(read.manifest, manifest(1));
}

#[test]
fn a_run_is_not_begun_where_something_is_and_not_resumed_where_nothing_is() {
    let place = tempfile::tempdir().unwrap();
    let run = place.path().join("run");
    assert!(matches!(TrainingFolder::resume(&run, &manifest(1)), Err(TrainerError::NoRun { .. })));
    let folder = TrainingFolder::create(&run, &manifest(1)).unwrap();
    assert!(matches!(TrainingFolder::create(&run, &manifest(1)), Err(TrainerError::RunExists { .. })));
    assert!(matches!(TrainingFolder::resume(&run, &manifest(1)), Err(TrainerError::Locked { .. })));
    drop(folder);
    TrainingFolder::resume(&run, &manifest(2)).unwrap();
    std::fs::write(place.path().join("thesis.txt"), "x").unwrap();
    assert!(matches!(TrainingFolder::create(place.path(), &manifest(1)), Err(TrainerError::NotEmpty { .. })));
}

#[test]
fn a_kill_while_the_manifest_is_made_leaves_a_folder_to_begin_in() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join(MAKING), "{\"ki").unwrap();
    std::fs::write(place.path().join(LOCK), "").unwrap();
    TrainingFolder::create(place.path(), &manifest(1)).unwrap();
}

#[test]
fn other_inputs_are_refused_and_each_difference_is_named() {
    let place = tempfile::tempdir().unwrap();
    drop(TrainingFolder::create(place.path(), &manifest(1)).unwrap());
    let mut other = manifest(2);
    other.inputs.insert("rows".to_owned(), "xyz".to_owned());
    other.settings = serde_json::json!({"batch": 8});
    let told = TrainingFolder::resume(place.path(), &other).unwrap_err().to_string();
    assert!(told.contains("inputs.rows was abc, is xyz"), "{told}");
    assert!(told.contains("settings.batch was absent, is 8"), "{told}");
}

#[test]
fn going_back_cuts_off_what_came_after_and_says_what_was_evaluated() {
    let place = tempfile::tempdir().unwrap();
    let mut folder = TrainingFolder::create(place.path(), &manifest(1)).unwrap();
    let mut links = vec![folder.last()];
    for record in [at(0), at(1), evaluation(1), at(2), at(3)] {
        folder.append(&record).unwrap();
        links.push(folder.last());
    }
    assert!(!folder.rewind(2, Some(links[4])).unwrap());
    assert_eq!(steps(place.path()), [0, 1, 1, 2]);
    assert!(folder.rewind(1, Some(links[2])).unwrap());
    folder.append(&at(2)).unwrap();
    drop(folder);
    let mut folder = TrainingFolder::resume(place.path(), &manifest(1)).unwrap();
    assert_eq!(steps(place.path()), [0, 1, 1, 2]);
    let torn = folder.rewind(1, Some(links[5])).unwrap_err().to_string();
    assert!(torn.contains("the checkpoint of step 1"), "{torn}");
    assert!(!folder.rewind(0, None).unwrap());
    assert_eq!(steps(place.path()), [0]);
}

#[test]
fn what_is_left_of_a_torn_line_is_no_record_and_a_changed_one_is_named() {
    let place = tempfile::tempdir().unwrap();
    let mut folder = TrainingFolder::create(place.path(), &manifest(1)).unwrap();
    [at(0), at(1), at(2)].iter().for_each(|record| folder.append(record).unwrap());
    drop(folder);
    let path = place.path().join(METRICS);
    let bytes = std::fs::read(&path).unwrap();
    for cut in 1..40 {
        std::fs::write(&path, &bytes[..bytes.len() - cut]).unwrap();
        assert_eq!(steps(place.path()), [0, 1]);
        let mut folder = TrainingFolder::resume(place.path(), &manifest(1)).unwrap();
        folder.append(&at(2)).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 100;
    let mut changed = bytes.clone();
    changed[at] ^= 1;
    std::fs::write(&path, &changed).unwrap();
    let told = read_records(place.path()).unwrap_err().to_string();
    assert!(told.contains("metrics.jsonl:2: "), "{told}");
    assert!(TrainingFolder::resume(place.path(), &manifest(1)).is_err());
    std::fs::write(&path, vec![b'x'; LINE_BYTES_MAX as usize + 1]).unwrap();
    assert!(read_records(place.path()).unwrap_err().to_string().contains("longer line than any record"));
    std::fs::write(place.path().join(MANIFEST), "{\"kind\":\"a diary\"}").unwrap();
    assert!(matches!(read_records(place.path()), Err(TrainerError::Manifest { .. })));
}
