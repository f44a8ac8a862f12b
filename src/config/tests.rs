use super::*;
use legwork_protocol::generation::Route;

fn settings(sets: &[&str]) -> Result<Settings, ConfigError> {
    let given = Given { sets: sets.iter().map(|set| (*set).to_owned()).collect(), ..Given::default() };
    Settings::read(&resolve(&given)?)
}

fn settings_of(profile: &str, sets: &[&str]) -> Result<Settings, ConfigError> {
    let sets = sets.iter().map(|set| (*set).to_owned()).collect();
    Settings::read(&resolve(&Given { profile: Some(profile.to_owned()), sets, ..Given::default() })?)
}

fn with_file(text: &str) -> Result<Settings, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.toml");
    std::fs::write(&path, text).unwrap();
    Settings::read(&resolve(&Given { file: Some(path), ..Given::default() })?)
}

#[test]
fn every_embedded_profile_reads() {
    for (name, _) in PROFILES {
        let given = Given {
            profile: Some(name.into()),
            sets: vec!["world.kind=archive".into(), "world.seed=1".into()],
            ..Given::default()
        };
        let settings = Settings::read(&resolve(&given).unwrap()).unwrap();
        assert_eq!(settings.profile.name, name);
    }
}

#[test]
fn the_card_has_the_cards_numbers() {
    let given = Given {
        profile: Some("card".into()),
        sets: vec!["world.kind=archive".into(), "world.seed=1".into()],
        ..Given::default()
    };
    let profile = Settings::read(&resolve(&given).unwrap()).unwrap().profile;
    let worker = &profile.worker;
    assert_eq!((worker.budget_tokens, worker.turns_max, worker.turn_tokens_max), (24_576, 40, 4_096));
    assert_eq!((worker.temperature, worker.top_p), (1.0, 0.95));
    assert_eq!(profile.gate.mode, legwork_protocol::profile::GateMode::Off);
}

#[test]
fn a_later_layer_wins_and_says_so() {
    let given = Given {
        sets: vec!["worker.turns_max=7".into()],
        flags: vec![("--concurrency", "run.limits.concurrency", toml::Value::Integer(3))],
        ..Given::default()
    };
    let resolved = resolve(&given).unwrap();
    let settings = Settings::read(&resolved).unwrap();
    assert_eq!((settings.profile.worker.turns_max, settings.run.limits.concurrency), (7, 3));
    let text = resolved.to_text();
    assert!(text.lines().any(|line| line.starts_with("worker.turns_max = 7") && line.ends_with("# --set")), "{text}");
    assert!(text.lines().any(|line| line.starts_with("worker.budget_tokens") && line.ends_with("# profile archive")));
    assert!(text.lines().any(|line| line.starts_with("run.limits.concurrency") && line.ends_with("# --concurrency")));
}

/// `--model`, as `eval` has it.
fn with_model(sets: &[&str]) -> Result<Resolved, ConfigError> {
    let local = toml::Value::Table([("local".to_owned(), "models/tiny".into())].into_iter().collect());
    let device = toml::Value::String("cuda:1".into());
    resolve(&Given {
        sets: sets.iter().map(|set| (*set).to_owned()).collect(),
        flags: vec![("--model", "models.worker", local), ("--device", "models.worker.engine.device", device)],
        ..Given::default()
    })
}

#[test]
fn what_is_set_of_a_model_that_a_flag_names_is_of_that_model() {
    let resolved = with_model(&["models.worker.engine.context=8192", "models.worker.engine={cache_mib=256}"]).unwrap();
    let Some(ModelSettings::Local(model)) = Settings::read(&resolved).unwrap().models.remove(&Route::Worker) else {
        panic!("the worker's model is in this process")
    };
    assert_eq!(model.local, std::path::Path::new("models/tiny"));
    assert_eq!((model.engine.context, model.engine.cache_mib), (8_192, Some(256)));
    assert_eq!(model.engine.device.to_string(), "cuda:1");
}

#[test]
fn a_flag_and_a_value_that_contradict_each_other_are_refused() {
    for set in [r#"models.worker={mock="teacher"}"#, r#"models.worker.local="models/other""#] {
        let error = with_model(&[set]).unwrap_err().to_string();
        assert!(error.contains("--model: a --set gives `models.worker` too"), "{error}");
    }
    let secret = with_model(&[r#"models.worker={url="http://x",key="sk-very-secret"}"#]).unwrap_err();
    assert!(!secret.to_string().contains("sk-very-secret"), "{secret}");
}

#[test]
fn a_typo_is_told_with_the_nearest_key() {
    let error = settings(&["worker.turn_max=7"]).unwrap_err().to_string();
    assert!(error.contains("`worker.turn_max`") && error.contains("did you mean `turns_max`"), "{error}");
    let error = with_file("[wrold]\nkind = \"archive\"\n").unwrap_err().to_string();
    assert!(error.contains("run.toml") && error.contains("did you mean `world`"), "{error}");
    let error = with_file("profile = \"crad\"\n").unwrap_err().to_string();
    assert!(error.contains("did you mean `card`"), "{error}");
}

#[test]
fn a_value_of_another_kind_is_told_with_its_section() {
    let error = settings(&["index.threads=\"many\""]).unwrap_err().to_string();
    assert!(error.starts_with("index:") && error.contains("many"), "{error}");
}

#[test]
fn an_endpoint_laid_over_a_mock_keeps_nothing_of_it() {
    let settings =
        with_file("[models.worker]\nkind = \"openai\"\nurl = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n").unwrap();
    assert!(matches!(
        settings.models.get(&legwork_protocol::generation::Route::Worker),
        Some(ModelSettings::Endpoint(_))
    ));
}

#[test]
fn a_device_is_read_as_a_word_and_a_wrong_one_is_told_with_those_there_are() {
    let local = r#"models.worker={local="models/tiny"}"#;
    let read = settings(&[local, "models.worker.engine.device=cuda:0,1"]).unwrap();
    let ModelSettings::Local(worker) = &read.models[&Route::Worker] else { panic!("{:?}", read.models) };
    assert_eq!(worker.engine.device.to_string(), "cuda:0,1");
    let error = settings(&[local, "models.worker.engine.device=gpu"]).unwrap_err().to_string();
    assert!(error.contains("`gpu`") && error.contains("expected cpu, cuda, cuda:N"), "{error}");
    let error = settings_of("archive-mock", &["models.worker.engine.device=cuda"]).unwrap_err().to_string();
    assert!(error.contains("models.worker.engine.device"), "a mock has no device: {error}");
}

#[test]
fn another_world_keeps_nothing_of_the_archive() {
    let settings = with_file("[world]\nkind = \"multihop\"\npath = \"data\"\n").unwrap();
    assert!(matches!(settings.world, WorldSettings::Multihop { extra: false, .. }));
}

#[test]
fn a_key_in_the_file_is_never_repeated() {
    let text =
        "[models.worker]\nkind = \"openai\"\nurl = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\nkey = \"sk-secret-123\"\n";
    match with_file(text) {
        Ok(settings) => assert!(!format!("{settings:?}").contains("sk-secret")),
        Err(error) => assert!(!error.to_string().contains("sk-secret"), "{error}"),
    }
}
